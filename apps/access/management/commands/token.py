"""`manage.py token`: issue, list and revoke tokens. A secret is printed once, and kept nowhere."""

import argparse
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import OperationalError

from apps.access import policy, selectors, tokens
from apps.access.management.commands.account import place_of
from apps.core.exceptions import ProblemError
from apps.core.moments import moment
from apps.core.pagination import rfc3339_or_none
from apps.engine.clock import SystemClock
from apps.engine.errors import EngineError, InvalidArgument

BY = "manage.py token"
_LISTED_MAX = 100_000


class Command(BaseCommand):
    """Tokens. The database must run: beside a broker, changes hold there within a second."""

    help = "Issue, list and revoke tokens of accounts."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare what can be done."""
        acts = parser.add_subparsers(dest="act", required=True, parser_class=_Parser)
        create = acts.add_parser("create", help="issue a token, and print its secret once")
        create.add_argument("name", help="the account's")
        create.add_argument("--label", required=True, help="what it is for")
        create.add_argument("--days", type=int, help="how long it lives; for ever unless given")
        create.add_argument(
            "--scope",
            action="append",
            default=[],
            metavar="KIND:NAME:ACTIONS",
            help="narrow it, such as topic:orders:pub or group:bill*:sub; may be repeated",
        )
        create.add_argument(
            "--key-pair",
            action="store_true",
            help="print the access key and the secret key of RocketMQ's clients as well",
        )
        listed = acts.add_parser("list", help="list tokens, the newest first")
        listed.add_argument("--account")
        revoke = acts.add_parser("revoke", help="revoke a token, by how its secret begins")
        revoke.add_argument("prefix")

    def handle(self, *_: Any, act: str, **options: Any) -> None:
        """Do it; exit with 1 and a sentence where it cannot be done."""
        try:
            getattr(self, f"_{act}")(**options)
        except (EngineError, ProblemError) as refusal:
            raise CommandError(str(refusal)) from refusal
        except OperationalError as error:
            raise CommandError(f"the database does not answer: {error}") from error

    def _create(
        self,
        *,
        name: str,
        label: str,
        days: int | None,
        scope: list[str],
        key_pair: bool,
        **_: Any,
    ) -> None:
        now = moment(SystemClock().wall_ms())
        issued = tokens.issue_token(
            name=name,
            label=label,
            scopes=[_scope(text) for text in scope],
            expires_at=None if days is None else now + timedelta(days=days),
            by=BY,
        )
        # Alone on its line, so that a script can take it.
        self.stdout.write(issued.secret)
        if key_pair:
            self.stdout.write(issued.keys.access_key)
            self.stdout.write(issued.keys.secret_key)

    def _list(self, *, account: str | None, **_: Any) -> None:
        now = moment(SystemClock().wall_ms())
        for row in selectors.tokens(name=account, tokens_max=_LISTED_MAX):
            is_over = row.expires_at is not None and row.expires_at <= now
            state = "revoked" if row.revoked_at else "expired" if is_over else "good"
            used = rfc3339_or_none(row.last_used_at) or "never"
            self.stdout.write(
                f"{row.prefix}\t{row.user.get_username()}\t{row.label}\t{state}\tused: {used}"
            )

    def _revoke(self, *, prefix: str, **_: Any) -> None:
        row = selectors.token_by_prefix(prefix)
        tokens.revoke_token(number=row.pk, by=BY)
        self.stdout.write(f"token {row.prefix} is revoked")


class _Parser(argparse.ArgumentParser):
    """Ends as Django's commands do where an argument is missing."""

    def error(self, message: str) -> Any:
        """Raise CommandError."""
        raise CommandError(f"{self.prog}: {message}")


def _scope(text: str) -> dict[str, Any]:
    kind, _, rest = text.partition(":")
    name, is_there, actions = rest.partition(":")
    if not is_there:
        raise InvalidArgument(f"{text[:60]!r} is no scope such as topic:orders:pub,sub")
    match, named = place_of(name)
    if kind == policy.Kind.CLUSTER:
        match, named = policy.Match.ANY.value, ""
    return {"kind": kind, "match": match, "name": named, "actions": actions.split(",")}
