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
        admin.create_topic(arguments.topic, queue_count=arguments.queues, topic_type=arguments.type)


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


def delete(arguments: argparse.Namespace) -> None:
    """Delete a topic with its messages."""
    with _admin(arguments) as admin:
        admin.delete_topic(arguments.topic)


def _described(info: TopicInfo) -> str:
    lines = [f"{info.topic}\t{info.type}\t{info.queue_count}", "queue\tmin_offset\tmax_offset"]
    for queue in info.queues:
        shown = (
            "?" if offset is None else offset for offset in (queue.min_offset, queue.max_offset)
        )
        lines.append("\t".join(map(str, (queue.queue, *shown))))
    return "\n".join(lines) + "\n"
