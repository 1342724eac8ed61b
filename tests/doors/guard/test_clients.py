"""What one client may have a second and at once: refused with a wait that is true."""

import pytest

from apps.doors.guard.clients import ClientLimits, ClientRates, TooMany
from apps.engine.testing.manualclock import ManualClock

MIB = 1024 * 1024


def refusal_of(limits: ClientLimits, name: str = "a", coming_bytes: int = 0) -> TooMany:
    with pytest.raises(TooMany) as refused:
        limits.enter(name, coming_bytes)
    return refused.value


def one_after_another(limits: ClientLimits, name: str = "a", coming_bytes: int = 0) -> int:
    """Make whole requests until one is refused; return how many were not."""
    count = 0
    while True:
        try:
            limits.enter(name, coming_bytes)
        except TooMany:
            return count
        limits.leave(name)
        count += 1


@pytest.mark.parametrize("requests_per_s", [1, 3, 10, 2_000])
def test_a_second_of_requests_may_come_at_once_and_then_as_many_as_time_brings(
    requests_per_s: int,
) -> None:
    clock = ManualClock()
    limits = ClientLimits(ClientRates(requests_per_s=requests_per_s), clock)

    assert one_after_another(limits) == requests_per_s
    for _ in range(5):
        clock.advance(1_000)
        assert one_after_another(limits) == requests_per_s
    clock.advance(3_600_000)
    assert one_after_another(limits) == requests_per_s


@pytest.mark.parametrize("requests_per_s", [1, 3, 7, 100])
def test_who_waits_as_long_as_was_said_is_served_and_not_much_earlier(requests_per_s: int) -> None:
    clock = ManualClock()
    limits = ClientLimits(ClientRates(requests_per_s=requests_per_s), clock)
    one_after_another(limits)

    wait_ms = refusal_of(limits).wait_ms
    clock.advance(max(0, wait_ms - 2))
    refusal_of(limits)
    clock.advance(2)

    assert one_after_another(limits) == 1


def test_a_body_may_overdraw_its_second_and_is_waited_for_that_long() -> None:
    clock = ManualClock()
    limits = ClientLimits(ClientRates(bytes_per_s=MIB), clock)

    limits.enter("a", 16 * MIB)
    limits.leave("a")
    refusal = refusal_of(limits, coming_bytes=1)
    assert (refusal.wait_ms, refusal.retry_after_s) == (15_001, 16)

    clock.advance(refusal.wait_ms)
    assert one_after_another(limits, coming_bytes=MIB) == 1


def test_bytes_that_were_not_announced_count_as_well() -> None:
    limits = ClientLimits(ClientRates(bytes_per_s=MIB), ManualClock())
    limits.enter("a")
    limits.spend("a", 3 * MIB)
    limits.leave("a")

    assert refusal_of(limits).retry_after_s == 3


def test_requests_under_way_are_bounded_and_one_that_ends_makes_room() -> None:
    limits = ClientLimits(ClientRates(requests_max=2), ManualClock())
    limits.enter("a")
    limits.enter("a")

    assert refusal_of(limits).retry_after_s == 1
    limits.leave("a")
    limits.enter("a")
    assert limits.refused_count == 1


def test_a_refusal_spends_nothing_and_clients_do_not_share() -> None:
    clock = ManualClock()
    limits = ClientLimits(ClientRates(requests_per_s=2, bytes_per_s=MIB), clock)
    assert one_after_another(limits, coming_bytes=1) == 2
    for _ in range(1_000):
        refusal_of(limits, coming_bytes=MIB)

    assert one_after_another(limits, "b") == 2
    clock.advance(1_000)
    assert one_after_another(limits, coming_bytes=1) == 2


def test_many_names_do_not_fill_the_memory_and_who_is_at_work_is_not_forgotten() -> None:
    clock = ManualClock()
    limits = ClientLimits(ClientRates(requests_per_s=5), clock, clients_max=10)
    limits.enter("at work")
    for number in range(1_000):
        limits.enter(f"client {number}")
        limits.leave(f"client {number}")
        assert len(limits) <= 10
    limits.leave("at work")

    clock.advance(10_000)
    limits.enter("a")
    assert len(limits) == 1, "who rests with a whole allowance is like one never seen"
