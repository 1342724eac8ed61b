"""`mq group`: who reads what. Knows the admin face and the output stream."""

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
