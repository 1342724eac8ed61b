"""The demonstration as a whole: who works when, what is reported, how it ends. Knows threads.

One thread sells, one reads for each group. A broker that goes away stops nobody: work is tried
again each second until it succeeds or the play is stopped. What a broker refuses ends the play.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from mqclient.errors import MqError

from apps.console.demo.orders import Verdict
from apps.console.demo.players import Reader, Seller
from apps.engine.clock import Clock

Result = TypeVar("Result")

TICK_S = 0.1
REPORT_S = 2.0
# An outage is not made up for: at most this much of the rate is sent at once.
BURST_S = 1.0
RETRY_S = 1.0
# What a reader waits for messages in one request; also how long a stop may take.
WAIT_MS = 500
# How long readers look for what is missing after the last send.
DRAIN_MS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One group's reader: reads at once, or every `pause_s` seconds takes all there is."""

    reader: Reader
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What was sent, and what one group made of it."""

    group: str
    sent: int
    in_order: int
    duplicates: int
    out_of_order: int

    @property
    def missing(self) -> int:
        """Return how many sent messages the group has not seen."""
        return max(0, self.sent - self.in_order - self.out_of_order)


class Play:
    """Runs the players until stopped, and says every few seconds how it stands."""

    def __init__(
        self,
        *,
        seller: Seller,
        parts: Mapping[str, Part],
        rate: float,
        clock: Clock,
        say: Callable[[str], object],
    ) -> None:
        self._seller = seller
        self._parts = parts
        self._rate = rate
        self._clock = clock
        self._say = say
        self._stop = threading.Event()
        self._sold_out = threading.Event()
        self._trouble = ""

    def stop(self) -> None:
        """Ask the players to finish; what was sent is still read. Safe in a signal handler."""
        self._stop.set()

    def run(self, *, seconds: float | None) -> list[Standing]:
        """Play for a time, or until stopped when it is None; return how each group stands.

        Raises what a player could not go on from.
        """
        started_ms = self._clock.monotonic_ms()
        with ThreadPoolExecutor(max_workers=1 + len(self._parts)) as players:
            working = [players.submit(self._sell)]
            working += [players.submit(self._read, part) for part in self._parts.values()]
            try:
                self._watch(working, started_ms, seconds)
            finally:
                self._stop.set()
        for player in working:
            player.result()
        return self.standings()

    def standings(self) -> list[Standing]:
        """Return how each group stands at this moment."""
        sent = self._seller.sent_count
        counts = {group: part.reader.ledger.counts for group, part in self._parts.items()}
        return [
            Standing(
                group=group,
                sent=sent,
                in_order=count[Verdict.IN_ORDER],
                duplicates=count[Verdict.DUPLICATE],
                out_of_order=count[Verdict.OUT_OF_ORDER],
            )
            for group, count in counts.items()
        ]

    def _watch(self, working: list[Future[None]], started_ms: int, seconds: float | None) -> None:
        while not self._stop.is_set():
            elapsed_s = (self._clock.monotonic_ms() - started_ms) / 1000
            left_s = REPORT_S if seconds is None else min(REPORT_S, seconds - elapsed_s)
            if left_s <= 0:
                return
            # Players end early only by failing.
            if wait(working, timeout=left_s, return_when=FIRST_EXCEPTION).done:
                return
            self._say(line(self.standings(), trouble=self._trouble))

    def _sell(self) -> None:
        owed = 0.0
        last_ms = self._clock.monotonic_ms()
        try:
            while not self._stop.wait(TICK_S):
                now_ms = self._clock.monotonic_ms()
                owed += self._rate * (now_ms - last_ms) / 1000
                owed = min(owed, max(1.0, self._rate * BURST_S))
                last_ms = now_ms
                count = int(owed)
                owed -= count
                if count:
                    self._attempt(partial(self._seller.sell, count))
        finally:
            self._sold_out.set()

    def _read(self, part: Part) -> None:
        while not self._stop.is_set():
            if part.pause_s:
                self._stop.wait(part.pause_s)
                while self._attempt(lambda: part.reader.read(wait_ms=0)):
                    pass
            else:
                self._attempt(lambda: part.reader.read(wait_ms=WAIT_MS))
        self._sold_out.wait()
        deadline_ms = self._clock.monotonic_ms() + DRAIN_MS
        while self._is_behind(part) and self._clock.monotonic_ms() < deadline_ms:
            self._attempt(lambda: part.reader.read(wait_ms=WAIT_MS))

    def _is_behind(self, part: Part) -> bool:
        return part.reader.ledger.counts[Verdict.IN_ORDER] < self._seller.sent_count

    def _attempt(self, work: Callable[[], Result]) -> Result | None:
        """Return what the work returns; None when the broker could not do it now."""
        try:
            result = work()
        except MqError as error:
            if not error.retriable:
                raise
            self._trouble = f"{error.code}: {error}"
            self._stop.wait(RETRY_S)
            return None
        self._trouble = ""
        return result


def line(standings: Sequence[Standing], *, trouble: str) -> str:
    """Return one line of a report: what was sent, how far each group is, what went wrong."""
    parts = [f"sent {standings[0].sent:,}"]
    parts += [f"{standing.group} {standing.in_order:,}" for standing in standings]
    parts.append(f"duplicates {sum(standing.duplicates for standing in standings):,}")
    parts.append(f"out of order {sum(standing.out_of_order for standing in standings):,}")
    if trouble:
        parts.append(f"trying again after {trouble}")
    return "  ".join(parts)
