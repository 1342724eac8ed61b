"""`mq dlq`: dead letters of a group. Knows the admin face and the output stream."""

import argparse
import sys

from mqclient.admin import Admin


def list_all(arguments: argparse.Namespace) -> None:
    """Print a line for each dead letter: id, state, topic, message id, attempts, reason."""
    with Admin(arguments.server, token=arguments.token) as admin:
        for letter in admin.dead_letters(arguments.group):
            fields = (
                letter.letter_id, letter.state, letter.topic, letter.message_id, letter.attempts,
                # A reason is anybody's text, and must stay one field of one line.
                " ".join(letter.reason.split()),
            )  # fmt: skip
            sys.stdout.write("\t".join(map(str, fields)) + "\n")


def resend(arguments: argparse.Namespace) -> None:
    """Have dead letters sent again; print the id of the job that does it."""
    with Admin(arguments.server, token=arguments.token) as admin:
        job = admin.resend_dead_letters(
            arguments.group,
            arguments.ids or None,
            topic=arguments.topic,
            is_dry_run=arguments.dry_run,
        )
    sys.stdout.write(f"{job}\n")
