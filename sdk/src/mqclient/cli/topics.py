"""`mq topic`: one call each, printed. Knows the admin face."""

import argparse
import sys

from mqclient.admin import Admin
from mqclient.values import TopicInfo


def _admin(arguments: argparse.Namespace) -> Admin:
    return Admin(arguments.server, token=arguments.token)


def create(arguments: argparse.Namespace) -> None:
    """Create a topic, or change the one that exists."""
    with _admin(arguments) as admin:
        admin.create_topic(
            arguments.topic,
            queue_count=arguments.queues,
            topic_type=arguments.type,
            retention_ms=arguments.retention_ms,
            cleanup=arguments.cleanup,
        )


def change(arguments: argparse.Namespace) -> None:
    """Change what is given of a topic that exists."""
    with _admin(arguments) as admin:
        admin.describe_topic(arguments.topic)
        admin.update_topic(
            arguments.topic, queue_count=arguments.queues, retention_ms=arguments.retention_ms
        )


def list_all(arguments: argparse.Namespace) -> None:
    """Print a line for every topic: name, type, queues."""
    with _admin(arguments) as admin:
        for info in admin.list_topics():
            sys.stdout.write(f"{info.topic}\t{info.type}\t{info.queue_count}\n")


def describe(arguments: argparse.Namespace) -> None:
    """Print a topic and a line for each queue."""
    with _admin(arguments) as admin:
        info = admin.describe_topic(arguments.topic)
    sys.stdout.write(_described(info))


def lites(arguments: argparse.Namespace) -> None:
    """Print a line for every lite topic of a parent: name, offsets, time of the newest message."""
    with _admin(arguments) as admin:
        found = admin.lite_topics(arguments.topic)
    sys.stdout.write("name\tmin_offset\tmax_offset\tnewest_at\n")
    for one in found:
        newest = one.newest_at or "?"
        sys.stdout.write(f"{one.name}\t{one.min_offset}\t{one.max_offset}\t{newest}\n")


def delete(arguments: argparse.Namespace) -> None:
    """Delete a topic with its messages."""
    with _admin(arguments) as admin:
        admin.delete_topic(
            arguments.topic, reason=arguments.reason, even_in_use=arguments.even_in_use
        )


def _described(info: TopicInfo) -> str:
    """Return the lines of a topic; what is as in any topic is left out."""
    lines = [f"{info.topic}\t{info.type}\t{info.queue_count}"]
    if info.retention_ms is not None:
        lines.append(f"retention_ms\t{info.retention_ms}")
    is_compacted = info.cleanup != "delete"
    if is_compacted:
        lines.append(f"cleanup\t{info.cleanup}")
    lines.append("queue\tmin_offset\tmax_offset" + "\tkept\tcompacted_at" * is_compacted)
    for queue in info.queues:
        shown = [queue.min_offset, queue.max_offset]
        if is_compacted:
            shown.append(queue.kept_messages)
        row = [str(queue.queue), *("?" if value is None else str(value) for value in shown)]
        if is_compacted:
            row.append(queue.compacted_at or "never")
        lines.append("\t".join(row))
    return "\n".join(lines) + "\n"
