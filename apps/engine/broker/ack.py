"""Settle handed-out messages: acknowledge, give back, keep for longer. Knows leases and handles."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.engine.broker.careevents import PutOff
from apps.engine.broker.catalog import Catalog
from apps.engine.broker.handles import Handle, Handles
from apps.engine.broker.inflight import LeaseEntry
from apps.engine.broker.journal import Event, Extend, Renew, Return, Runs, Settle, runs_of
from apps.engine.broker.names import check_group_name
from apps.engine.broker.recorder import Recorder
from apps.engine.broker.retrypolicy import (
    DEAD_LETTER_LEVEL,
    check_delay,
    clamped_level,
    is_over,
)
from apps.engine.broker.retrypolicy import delay_ms as policy_delay_ms
from apps.engine.broker.state import ConsumerState
from apps.engine.clock import Clock
from apps.engine.errors import InvalidArgument
from apps.engine.limits import INVISIBLE_MS_MAX, INVISIBLE_MS_MIN
from apps.engine.types import Settled, SettleResult

_REASON_CHARACTERS_MAX = 1000
_OK = SettleResult(outcome=Settled.OK)
_EXPIRED = SettleResult(outcome=Settled.EXPIRED)
_INVALID = SettleResult(outcome=Settled.INVALID)
_NONE = np.empty(0, dtype=np.int64)


@dataclass(slots=True, kw_only=True)
class _Share:
    """What a request wants of one lease: positions of its handles, and the offsets they name."""

    entry: LeaseEntry
    indexes: list[int]
    offsets: list[NDArray[np.int64]]

    def runs(self) -> Runs:
        """Return the offsets as runs, each once."""
        return runs_of(self.each_once())

    def each_once(self) -> NDArray[np.int64]:
        """Return the offsets, ascending: int64[n]. As they mostly come, nothing need be sorted."""
        found = self.offsets[0] if len(self.offsets) == 1 else np.concatenate(self.offsets)
        is_ascending = bool((found[1:] > found[:-1]).all())
        return found if is_ascending else np.unique(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastFailure:
    """Messages of a lease that are not given back but buried: `offsets` int64[n].

    `handles` are the positions of the handles that name them, and what each names.
    """

    entry: LeaseEntry
    offsets: NDArray[np.int64]
    handles: tuple[tuple[int, NDArray[np.int64]], ...]


class Ack:
    """The three things a receiver may do with what it was handed."""

    def __init__(
        self,
        state: ConsumerState,
        recorder: Recorder,
        handles: Handles,
        *,
        catalog: Catalog,
        levels_ms: Sequence[int],
        clock: Clock,
        epoch: int,
    ) -> None:
        """Bind to a store."""
        self._state = state
        self._recorder = recorder
        self._handles = handles
        self._catalog = catalog
        self._levels_ms = levels_ms
        self._clock = clock
        self._epoch = epoch
        self.message_count = 0

    def ack(self, group: str, handles: Sequence[str]) -> list[SettleResult]:
        """Settle messages for good. A handle acknowledged twice is answered with OK twice."""
        return self._each(group, handles, self._settle, if_settled=_OK)

    def last_failures(
        self, group: str, handles: Sequence[str], *, delay_level: int | None
    ) -> list[LastFailure]:
        """Return what a `nack` of these handles would give back that gets no retry; change nothing.

        That is all of it for level -1. Raises InvalidName.
        """
        check_group_name(group)
        spec = self._catalog.group(group)
        _, shares = self._claims(group, handles, if_settled=_EXPIRED)
        return [
            LastFailure(
                entry=share.entry,
                offsets=share.each_once(),
                handles=tuple(zip(share.indexes, share.offsets, strict=True)),
            )
            for share in shares
            if delay_level == DEAD_LETTER_LEVEL or is_over(spec, share.entry.failures)
        ]

    def nack(
        self,
        group: str,
        handles: Sequence[str],
        *,
        delay_ms: int | None = None,
        delay_level: int | None = None,
        reason: str = "",
        is_failure: bool = True,
    ) -> list[SettleResult]:
        """Give messages back, visible after `delay_ms`, or as long as a level or the policy says.

        Those that get no retry are given back too, and are never handed out again. Where it is no
        failure, this attempt is not counted. Raises InvalidArgument.
        """
        check_delay(delay_level, delay_ms, delay_ms_max=INVISIBLE_MS_MAX)
        spec = self._catalog.group(group)
        now_ms = self._clock.wall_ms()

        def event(entry: LeaseEntry, runs: Runs) -> Event:
            wait_ms = delay_ms
            if delay_level is not None and delay_level > 0:
                wait_ms = self._levels_ms[clamped_level(delay_level, self._levels_ms) - 1]
            elif wait_ms is None:
                wait_ms = policy_delay_ms(spec, entry.failures - 1, self._levels_ms)
            visible_ms = now_ms + min(wait_ms, INVISIBLE_MS_MAX)
            if not is_failure:
                return PutOff(lease=entry.lease, visible_ms=visible_ms, runs=runs)
            return Return(
                lease=entry.lease,
                visible_ms=visible_ms,
                runs=runs,
                reason=reason[:_REASON_CHARACTERS_MAX],
            )

        return self._each(group, handles, event, if_settled=_EXPIRED)

    def extend(
        self, group: str, handles: Sequence[str], *, invisible_ms: int
    ) -> list[SettleResult]:
        """Keep messages for `invisible_ms` from here on; answer new handles.

        Raises InvalidArgument.
        """
        _check_invisible(invisible_ms)
        until_ms = self._clock.wall_ms() + invisible_ms

        def event(entry: LeaseEntry, runs: Runs) -> Event:
            return Extend(lease=entry.lease, epoch=self._epoch, until_ms=until_ms, runs=runs)

        return self._each(group, handles, event, if_settled=_EXPIRED, has_new_handles=True)

    def renew(self, group: str, tokens: Sequence[str], *, invisible_ms: int) -> list[SettleResult]:
        """Keep what is left of leases for `invisible_ms` from here on; their handles stay good.

        Raises InvalidArgument.
        """
        check_group_name(group)
        _check_invisible(invisible_ms)
        until_ms = self._clock.wall_ms() + invisible_ms
        results, leases = [], []
        for token in tokens:
            handle = self._handles.parse(group, f"{token}:0")
            entry = None if handle is None else self._state.leases.get(handle.lease)
            if handle is None:
                results.append(_INVALID)
            elif entry is None or entry.epoch != handle.epoch or not self._is_good(entry):
                results.append(_EXPIRED)
            else:
                results.append(_OK)
                leases.append(entry.lease)
        self._recorder.record_all([Renew(lease=lease, until_ms=until_ms) for lease in leases])
        return results

    def places(self, group: str, handles: Sequence[str]) -> set[tuple[str, int]]:
        """Return the queues of messages that are out, by topic and number."""
        found = (self._handles.parse(group, text) for text in handles)
        entries = (self._state.leases.get(handle.lease) for handle in found if handle is not None)
        return {
            (entry.progress.topic, entry.progress.queue) for entry in entries if entry is not None
        }

    def _is_good(self, entry: LeaseEntry) -> bool:
        return entry.is_out and entry.due_ms > self._clock.monotonic_ms()

    def _settle(self, entry: LeaseEntry, runs: Runs) -> Event:
        self.message_count += int((runs[:, 1] - runs[:, 0] + 1).sum())
        return Settle(lease=entry.lease, runs=runs)

    def _each(
        self,
        group: str,
        handles: Sequence[str],
        event: Callable[[LeaseEntry, Runs], Event],
        *,
        if_settled: SettleResult,
        has_new_handles: bool = False,
    ) -> list[SettleResult]:
        """Record one event a lease, whatever number of handles name it."""
        check_group_name(group)
        results, shares = self._claims(group, handles, if_settled=if_settled)
        numbers = self._recorder.record_all([event(share.entry, share.runs()) for share in shares])
        for share, number in zip(shares, numbers, strict=True):
            if not has_new_handles:
                break
            token = self._handles.token(group, number, self._epoch)
            for index in share.indexes:
                run = handles[index].rpartition(":")[2]
                results[index] = SettleResult(outcome=Settled.OK, handle=f"{token}:{run}")
        return results

    def _claims(
        self, group: str, handles: Sequence[str], *, if_settled: SettleResult
    ) -> tuple[list[SettleResult], list[_Share]]:
        """Return what becomes of each handle, and what they name together of each lease."""
        results = [_INVALID] * len(handles)
        shares: dict[int, _Share] = {}
        for index, text in enumerate(handles):
            handle = self._handles.parse(group, text)
            if handle is not None:
                results[index] = self._claim(handle, index, shares, if_settled=if_settled)
        return results, list(shares.values())

    def _claim(
        self, handle: Handle, index: int, shares: dict[int, _Share], *, if_settled: SettleResult
    ) -> SettleResult:
        leases = self._state.leases
        entry = leases.get(handle.lease)
        if entry is None or entry.epoch != handle.epoch:
            offsets = _NONE
        else:
            low, high = np.searchsorted(entry.offsets, [handle.first, handle.last + 1])
            offsets = entry.offsets[low:high]
        if entry is None or not len(offsets):
            # Settled before, or expired and handed to somebody else, or moved to another lease.
            where = (handle.lease, handle.epoch, handle.first, handle.last)
            return if_settled if leases.was_settled(*where) else _EXPIRED
        if not self._is_good(entry):
            return _EXPIRED
        share = shares.setdefault(entry.lease, _Share(entry=entry, indexes=[], offsets=[]))
        share.indexes.append(index)
        share.offsets.append(offsets)
        return _OK


def _check_invisible(invisible_ms: int) -> None:
    if not INVISIBLE_MS_MIN <= invisible_ms <= INVISIBLE_MS_MAX:
        raise InvalidArgument(
            f"invisible_ms must be {INVISIBLE_MS_MIN} to {INVISIBLE_MS_MAX}, not {invisible_ms}"
        )
