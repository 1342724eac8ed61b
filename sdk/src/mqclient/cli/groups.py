"""`mq group`: who reads what, and what is left. Knows the admin face and the output stream."""

import argparse
import sys

from mqclient.admin import Admin


def list_all(arguments: argparse.Namespace) -> None:
    """Print the name of every group."""
    with Admin(arguments.server, token=arguments.token) as admin:
        for name in admin.list_groups():
            sys.stdout.write(f"{name}\n")


def describe(arguments: argparse.Namespace) -> None:
    """Print a group with its generation, and a line for each member."""
    with Admin(arguments.server, token=arguments.token) as admin:
        info = admin.describe_group(arguments.group)
    lines = [f"{info.group}\t{info.generation or '?'}", "member\tsubscriptions\tqueues"]
    for member in info.members:
        wanted = ", ".join(f"{topic} {text}" for topic, text in member.subscriptions)
        queues = ", ".join(f"{place.topic}:{place.queue}" for place in member.queues)
        lines.append(f"{member.client_id}\t{wanted}\t{queues or 'idle'}")
    sys.stdout.write("\n".join(lines) + "\n")


def lag(arguments: argparse.Namespace) -> None:
    """Print what a group has left to do: a line for each queue and parent, and one for all."""
    with Admin(arguments.server, token=arguments.token) as admin:
        found = admin.group_lag(arguments.group)
    lines = ["topic\tqueue\tlag\tin_flight\tready\toldest_ms"]
    for queue in found.queues:
        counts = (queue.lag, queue.in_flight, queue.ready, queue.oldest_age_ms)
        lines.append(_line(queue.topic, str(queue.queue), *counts))
    for lite in found.lites:
        where = f"{_shown(lite.topics_behind)} lite topics"
        lines.append(
            _line(lite.topic, where, lite.lag, lite.in_flight, lite.ready, lite.oldest_age_ms)
        )
    lines.append(f"total\t\t{_shown(found.lag)}\t\t\t{_age(found.lag, found.oldest_age_ms)}")
    sys.stdout.write("\n".join(lines) + "\n")


def _line(
    topic: str,
    where: str,
    lag: int | None,
    in_flight: int | None,
    ready: int | None,
    oldest_age_ms: int | None,
) -> str:
    counts = (_shown(lag), _shown(in_flight), _shown(ready), _age(lag, oldest_age_ms))
    return "\t".join((topic, where, *counts))


def _age(lag: int | None, oldest_age_ms: int | None) -> str:
    return "-" if lag == 0 else _shown(oldest_age_ms)


def _shown(count: int | None) -> str:
    return "?" if count is None else str(count)
