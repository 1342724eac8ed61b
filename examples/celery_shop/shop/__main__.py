"""`python -m shop order 5` and `python -m shop report`: send work, and wait for its outcome."""

import argparse
import sys

from shop import ledger
from shop.tasks import nightly_report, order

_PRICE_CENTS = 1250
_WAIT_S = 60


def main() -> int:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m shop")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("order", help="place orders").add_argument("count", type=int)
    commands.add_parser("report", help="make the nightly report now")
    chosen = parser.parse_args()
    if chosen.command == "order":
        _place(chosen.count)
    else:
        print(nightly_report().apply_async().get(_WAIT_S))
    return 0


def _place(count: int) -> None:
    first = ledger.last_order() + 1
    placed = [
        order(number, number * _PRICE_CENTS).apply_async() for number in range(first, first + count)
    ]
    print(f"{count} orders placed")
    for result in placed:
        print(result.get(_WAIT_S))


if __name__ == "__main__":
    sys.exit(main())
