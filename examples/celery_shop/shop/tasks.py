"""The shop's tasks. Each is safe to run twice: what it does is written once, by the ledger."""

from typing import Any

from celery import chain, chord
from celery.canvas import Signature
from celery.utils.log import get_task_logger

from shop import ledger
from shop.application import app

MAIL_DELAY_S = 2
_REPORT_PARTS = 4
_log = get_task_logger(__name__)


class BankIsAway(Exception):
    """The bank does not answer; it will."""


def order(number: int, cents: int) -> Signature:
    """Return what happens to an order: taken, charged, and confirmed by mail a little later."""
    return chain(
        take_order.s(number=number, cents=cents),
        charge.s(),
        send_mail.s().set(countdown=MAIL_DELAY_S),
    )


@app.task
def take_order(*, number: int, cents: int) -> dict[str, int]:
    """Write an order down."""
    ledger.note(number, "taken", cents)
    _log.info("order %d is taken", number)
    return {"number": number, "cents": cents}


@app.task(bind=True, autoretry_for=(BankIsAway,), max_retries=5, retry_backoff=True)
def charge(self: Any, taken: dict[str, int]) -> dict[str, int]:
    """Charge an order; the bank is away at the first attempt for every third order."""
    number, cents = taken["number"], taken["cents"]
    if number % 3 == 0 and self.request.retries == 0:
        raise BankIsAway(f"no answer for order {number}")
    ledger.note(number, "charged", cents)
    _log.info("order %d is charged at attempt %d", number, self.request.retries + 1)
    return {**taken, "attempts": self.request.retries + 1}


@app.task
def send_mail(charged: dict[str, int]) -> str:
    """Confirm an order."""
    number, attempts = charged["number"], charged["attempts"]
    is_new = ledger.note(number, "mailed")
    _log.info("order %d is confirmed%s", number, "" if is_new else ", again: nothing is sent")
    return f"order {number}: charged {charged['cents'] / 100:.2f} at attempt {attempts}, mail sent"


@app.task
def report() -> None:
    """Add up the day in parts that any worker can take, and put the parts together."""
    nightly_report().apply_async()


def nightly_report() -> Signature:
    """Return the report: parts side by side, then their sum."""
    return chord((charged_in.s(part=part) for part in range(_REPORT_PARTS)), add_up.s())


@app.task
def charged_in(*, part: int) -> int:
    """Return what one part of the orders was charged, in cents."""
    return ledger.cents_charged(part, _REPORT_PARTS)


@app.task
def add_up(cents: list[int]) -> str:
    """Put the parts of the report together."""
    told = f"charged in all: {sum(cents) / 100:.2f}, in {len(cents)} parts"
    _log.info("report: %s", told)
    return told
