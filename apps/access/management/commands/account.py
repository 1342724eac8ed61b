"""`manage.py account`: make, list and change accounts, and what they are granted."""

import argparse
import getpass
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import OperationalError

from apps.access import accounts, factors, policy, selectors
from apps.core.exceptions import ProblemError
from apps.engine.errors import EngineError

BY = "manage.py account"
_LISTED_MAX = 100_000


class Command(BaseCommand):
    """Accounts. The database must run: beside a broker, changes hold there within a second."""

    help = "Make, list, change and remove accounts, and give and take grants."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare what can be done."""
        acts = parser.add_subparsers(dest="act", required=True, parser_class=_Parser)
        roles = [role.value for role in policy.Role]
        create = acts.add_parser("create", help="make an account; asks for a password")
        create.add_argument("name")
        create.add_argument("--role", choices=roles, default=policy.Role.NONE.value)
        create.add_argument(
            "--program", action="store_true", help="no password: it has tokens only"
        )
        acts.add_parser("list", help="list accounts")
        change = acts.add_parser("change", help="change role, password, or whether it is open")
        change.add_argument("name")
        change.add_argument("--role", choices=roles)
        change.add_argument("--password", action="store_true", help="ask for a new password")
        opened = change.add_mutually_exclusive_group()
        opened.add_argument("--open", dest="is_active", action="store_true", default=None)
        opened.add_argument("--close", dest="is_active", action="store_false")
        acts.add_parser("delete", help="remove an account").add_argument("name")
        factor = acts.add_parser("second-factor-off", help="for who has lost it")
        factor.add_argument("name")
        grant = acts.add_parser("grant", help="allow or deny something")
        grant.add_argument("name")
        grant.add_argument("kind", choices=[kind.value for kind in policy.Kind])
        grant.add_argument("resource", help="a name, a prefix with * behind it, or * alone")
        grant.add_argument("actions", help="by comma, such as pub,sub")
        grant.add_argument("--deny", action="store_true")
        grant.add_argument("--source", action="append", default=[], help="a network")
        acts.add_parser("grants", help="list an account's grants").add_argument("name")
        ungrant = acts.add_parser("ungrant", help="take a grant back, by its number")
        ungrant.add_argument("number", type=int)

    def handle(self, *_: Any, act: str, **options: Any) -> None:
        """Do it; exit with 1 and a sentence where it cannot be done."""
        try:
            getattr(self, f"_{act.replace('-', '_')}")(**options)
        except (EngineError, ProblemError) as refusal:
            raise CommandError(str(refusal)) from refusal
        except OperationalError as error:
            raise CommandError(f"the database does not answer: {error}") from error

    def _create(self, *, name: str, role: str, program: bool, **_: Any) -> None:
        password = None if program else _asked_password()
        accounts.create_account(name=name, password=password, role=policy.Role(role), by=BY)
        self.stdout.write(f"account {name} is there, role {role}")

    def _list(self, **_: Any) -> None:
        for user in selectors.accounts(accounts_max=_LISTED_MAX):
            role = "super-user" if user.is_superuser else selectors.role_of(user)
            signs_in = "password" if user.has_usable_password() else "program"
            state = "open" if user.is_active else "closed"
            self.stdout.write(f"{user.get_username()}\t{role}\t{signs_in}\t{state}")

    def _change(
        self, *, name: str, role: str | None, password: bool, is_active: bool | None, **_: Any
    ) -> None:
        accounts.change_account(
            name=name,
            role=None if role is None else policy.Role(role),
            is_active=is_active,
            password=_asked_password() if password else None,
            by=BY,
        )
        self.stdout.write(f"account {name} is changed")

    def _delete(self, *, name: str, **_: Any) -> None:
        accounts.delete_account(name=name, by=BY)
        self.stdout.write(f"account {name} is removed")

    def _second_factor_off(self, *, name: str, **_: Any) -> None:
        factors.turn_off(user=selectors.account(name), by=BY)
        self.stdout.write(f"account {name} signs in with its password alone")

    def _grant(
        self, *, name: str, kind: str, resource: str, actions: str, deny: bool,
        source: list[str], **_: Any,
    ) -> None:  # fmt: skip
        match, named = place_of(resource)
        row = accounts.add_grant(
            name=name,
            kind=kind,
            actions=actions.split(","),
            match=match,
            resource=named,
            effect="deny" if deny else "allow",
            sources=source,
            by=BY,
        )
        self.stdout.write(f"{row.pk}\t{row}")

    def _grants(self, *, name: str, **_: Any) -> None:
        for row in selectors.grants(name=name, grants_max=_LISTED_MAX):
            self.stdout.write("\t".join([str(row.pk), str(row), *row.sources]))

    def _ungrant(self, *, number: int, **_: Any) -> None:
        accounts.remove_grant(number=number, by=BY)
        self.stdout.write(f"grant {number} is taken back")


class _Parser(argparse.ArgumentParser):
    """Ends as Django's commands do where an argument is missing."""

    def error(self, message: str) -> Any:
        """Raise CommandError."""
        raise CommandError(f"{self.prog}: {message}")


def place_of(text: str) -> tuple[str, str]:
    """Return match and name of `orders`, `order*` and `*`."""
    if text == "*":
        return policy.Match.ANY.value, ""
    if text.endswith("*"):
        return policy.Match.PREFIX.value, text[:-1]
    return policy.Match.LITERAL.value, text


def _asked_password() -> str:
    """Return a password, asked for twice; from a pipe it is one line."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    password = getpass.getpass("Password: ")
    if password != getpass.getpass("Again: "):
        raise CommandError("the two are not the same")
    return password
