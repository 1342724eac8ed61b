"""Which segments the rules want deleted; who is waited for; leases of readers elsewhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.engine.errors import InvalidArgument
from apps.engine.failpoints import Failpoints
from apps.engine.log.pins import Pins
from apps.engine.log.retained import Retained, load_retained, store_retained
from apps.engine.log.retention import (
    SEGMENTS_MAX,
    LogExtent,
    RetentionPolicy,
    Rule,
    Wanted,
    wanted,
)
from apps.engine.log.segmentleases import LEASE_MS_MAX, SegmentLeases
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk

HOUR_MS = 3_600_000
SIZE = 1_000
AT_FOUR = 100 * 24 * HOUR_MS + 4 * HOUR_MS


def extent(first_ms: list[int | None], *, start: int = 0, last_bytes: int = 10) -> LogExtent:
    """Return a log of as many segments as there are times; the last of them is the newest."""
    bases = [start + number * SIZE for number in range(len(first_ms))]
    times = dict(zip(bases, first_ms, strict=True))
    return LogExtent(
        bases=bases[:-1], newest=bases[-1], end=bases[-1] + last_bytes, first_ms=times.__getitem__
    )


def test_a_segment_is_as_old_as_the_first_message_behind_it() -> None:
    old = AT_FOUR - 10 * HOUR_MS
    policy = RetentionPolicy(age_ms=9 * HOUR_MS)

    found = wanted(
        policy, extent([0, old, old + HOUR_MS + 1, AT_FOUR]), now_ms=AT_FOUR, disk_used=0
    )

    assert found == Wanted(log_start=SIZE, rule=Rule.AGE, more=False)


def test_a_segment_behind_which_nothing_was_stored_stays() -> None:
    policy = RetentionPolicy(age_ms=1)

    assert wanted(policy, extent([0, None]), now_ms=AT_FOUR, disk_used=0) is None


@pytest.mark.parametrize(
    ("hour", "disk_used", "at_any_hour", "goes"),
    [
        (4, 0.1, False, True),
        (5, 0.1, False, False),
        (3, 0.749, False, False),
        (5, 0.75, False, True),
        (5, 0.1, True, True),
    ],
)
def test_age_needs_its_hour_or_a_disk_that_fills_up_or_somebody_who_asks(
    hour: int, disk_used: float, at_any_hour: bool, goes: bool
) -> None:
    now_ms = 100 * 24 * HOUR_MS + hour * HOUR_MS
    log = extent([0, 0, now_ms])

    found = wanted(
        RetentionPolicy(age_ms=HOUR_MS),
        log,
        now_ms=now_ms,
        disk_used=disk_used,
        at_any_hour=at_any_hour,
    )

    assert (found is not None) == goes


def test_a_full_disk_takes_one_young_segment_at_a_time() -> None:
    policy = RetentionPolicy(age_ms=HOUR_MS)
    log = extent([AT_FOUR] * 4)

    assert wanted(policy, log, now_ms=AT_FOUR, disk_used=0.849) is None
    assert wanted(policy, log, now_ms=AT_FOUR, disk_used=0.85) == Wanted(
        log_start=SIZE, rule=Rule.DISK, more=True
    )
    assert wanted(policy, extent([AT_FOUR]), now_ms=AT_FOUR, disk_used=0.99) is None


@given(
    count=st.integers(1, 40),
    old=st.integers(0, 40),
    start=st.integers(0, 5),
    bytes_max=st.none() | st.integers(0, 40 * SIZE),
    disk_used=st.floats(0, 1),
    hour=st.integers(0, 23),
)
def test_what_is_wanted_is_whole_segments_and_never_the_newest(
    count: int, old: int, start: int, bytes_max: int | None, disk_used: float, hour: int
) -> None:
    now_ms = 100 * 24 * HOUR_MS + hour * HOUR_MS
    times: list[int | None] = [0 if number <= old else now_ms for number in range(count)]
    log = extent(times, start=start * SIZE)
    policy = RetentionPolicy(age_ms=HOUR_MS, bytes_max=bytes_max)

    found = wanted(policy, log, now_ms=now_ms, disk_used=disk_used)

    by_age = min(old, count - 1) if hour == 4 or disk_used >= 0.75 else 0
    by_size = 0
    while bytes_max is not None and by_size < count - 1:
        if log.end - (start + by_size) * SIZE <= bytes_max:
            break
        by_size += 1
    most = max(by_age, by_size)
    if most:
        assert found is not None
        taken = min(most, SEGMENTS_MAX)
        assert found.log_start == (start + taken) * SIZE
        assert found.more == (taken < most)
    else:
        assert (found is not None) == (disk_used >= 0.85 and count > 1)
    if found is not None:
        assert found.log_start <= log.newest


def test_those_who_began_before_are_waited_for_and_later_ones_are_not() -> None:
    pins, events = Pins(), []
    first, second = pins.held(), pins.held()
    first.__enter__()

    pins.when_gone(lambda: events.append("gone"))
    second.__enter__()
    before = list(events)
    first.__exit__(None, None, None)
    after = list(events)
    second.__exit__(None, None, None)

    assert (before, after, events) == ([], ["gone"], ["gone"])


def test_with_nobody_there_nobody_is_waited_for() -> None:
    pins, events = Pins(), []

    pins.when_gone(lambda: events.append(1))

    assert events == [1]


def leases() -> tuple[SegmentLeases, SimulatedDisk, ManualClock]:
    disk, clock = SimulatedDisk(), ManualClock()
    return SegmentLeases(disk, clock), disk, clock


def test_a_lease_lasts_as_long_as_was_said_and_is_renewed_from_further_on() -> None:
    held, _, clock = leases()
    held.take("job", 100, lease_ms=1_000)
    clock.advance(999)
    before = [lease.log_offset for lease in held.in_force()]

    held.take("job", 200, lease_ms=1_000)
    clock.advance(999)
    renewed = [lease.log_offset for lease in held.in_force()]
    clock.advance(1)

    assert (before, renewed, held.in_force()) == ([100], [200], [])


def test_a_lease_begins_where_the_log_does() -> None:
    held, disk, _ = leases()
    store_retained(disk, Retained(log_start=500, queues=(("t", 0, 3),)), failpoints=Failpoints())

    assert held.take("job", 100, lease_ms=1_000).log_offset == 500
    assert load_retained(disk).queues == (("t", 0, 3),)


def test_a_lease_given_back_is_over() -> None:
    held, _, _ = leases()
    held.take("job", 100, lease_ms=1_000)

    held.release("job")
    held.release("job")

    assert held.in_force() == []


def test_a_lease_that_cannot_be_read_is_of_everything() -> None:
    held, disk, clock = leases()
    held.take("job", 100, lease_ms=1_000)
    disk.flip("leases/job", 20)
    clock.advance(10 * LEASE_MS_MAX)

    assert [(lease.owner, lease.log_offset) for lease in held.in_force()] == [("job", 0)]


@pytest.mark.parametrize(
    ("owner", "log_offset", "lease_ms"),
    [("../x", 0, 1), ("", 0, 1), ("a", -1, 1), ("a", 0, 0), ("a", 0, LEASE_MS_MAX + 1)],
)
def test_a_lease_that_is_none_is_refused(owner: str, log_offset: int, lease_ms: int) -> None:
    held, disk, _ = leases()

    with pytest.raises(InvalidArgument):
        held.take(owner, log_offset, lease_ms=lease_ms)

    assert disk.names("leases") == []
