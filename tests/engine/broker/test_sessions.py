"""Who has received lately, by a clock that the test moves."""

from apps.engine.broker.sessions import Sessions
from apps.engine.testing.manualclock import ManualClock


def request(client_id: str, *topics: str, group: str = "g") -> tuple[str, str, tuple[str, ...]]:
    return group, client_id, topics or ("orders",)


def known(sessions: Sessions) -> list[str]:
    return [client.client_id for client in sessions.clients()]


def test_a_client_has_its_first_and_its_last_receive_as_wall_times() -> None:
    clock = ManualClock()
    started_ms = clock.wall_ms()
    sessions = Sessions(clock, sessions_max=10)
    sessions.see(*request("c"))
    clock.advance(1_000)
    sessions.see(*request("c"))
    clock.advance(500)

    (client,) = sessions.clients()

    assert (client.group, client.client_id, client.topics) == ("g", "c", ("orders",))
    assert (client.first_seen_ms, client.last_seen_ms) == (started_ms, started_ms + 1_000)
    assert not client.is_waiting


def test_a_jump_of_the_wall_clock_makes_nobody_silent() -> None:
    clock = ManualClock()
    sessions = Sessions(clock, sessions_max=10)
    sessions.see(*request("c"))
    clock.set_wall(clock.wall_ms() + 86_400_000)

    gone = sessions.forget_silent(1_000)

    (client,) = sessions.clients()
    assert gone == []
    assert client.last_seen_ms == clock.wall_ms()


def test_a_client_without_a_name_stays_unknown() -> None:
    sessions = Sessions(ManualClock(), sessions_max=10)
    nameless = request("")

    sessions.see(*nameless)
    with sessions.waiting(*nameless):
        assert sessions.clients() == []


def test_a_waiting_client_is_seen_now_until_it_has_waited() -> None:
    clock = ManualClock()
    sessions = Sessions(clock, sessions_max=10)
    sessions.see(*request("c"))

    with sessions.waiting(*request("c")):
        clock.advance(30_000)
        (waiting,) = sessions.clients()
        gone = sessions.forget_silent(0)
    ended_ms = clock.wall_ms()
    clock.advance(1)

    (client,) = sessions.clients()
    assert (waiting.is_waiting, waiting.last_seen_ms) == (True, ended_ms)
    assert gone == []
    assert (client.is_waiting, client.last_seen_ms) == (False, ended_ms)


def test_silence_longer_than_asked_is_forgotten_and_told() -> None:
    clock = ManualClock()
    sessions = Sessions(clock, sessions_max=10)
    sessions.see(*request("old", group="h"))
    sessions.see(*request("old"))
    clock.advance(100)
    sessions.see(*request("young"))
    clock.advance(1_000)

    gone = sessions.forget_silent(1_000)

    assert [(client.group, client.client_id) for client in gone] == [("g", "old"), ("h", "old")]
    assert known(sessions) == ["young"]
    assert sessions.forget_silent(1_000) == []


def test_a_client_of_several_subscriptions_is_one_client() -> None:
    clock = ManualClock()
    started_ms = clock.wall_ms()
    sessions = Sessions(clock, sessions_max=10)
    sessions.see(*request("c", "b", "a"))
    clock.advance(1_000)
    sessions.see(*request("c", "c", "a"))

    (both,) = sessions.clients()
    clock.advance(500)
    gone = sessions.forget_silent(1_000)

    assert both.topics == ("a", "b", "c")
    assert (both.first_seen_ms, both.last_seen_ms) == (started_ms, started_ms + 1_000)
    assert gone == []
    assert [client.topics for client in sessions.clients()] == [("a", "c")]


def test_clients_are_asked_for_by_group() -> None:
    sessions = Sessions(ManualClock(), sessions_max=10)
    sessions.see(*request("1", group="h"))
    sessions.see(*request("1", group="g"))

    assert [client.group for client in sessions.clients("h")] == ["h"]
    assert [client.group for client in sessions.clients()] == ["g", "h"]
    assert sessions.clients("nobody") == []


def test_above_the_limit_the_longest_silent_goes() -> None:
    clock = ManualClock()
    sessions = Sessions(clock, sessions_max=3)
    for name in ("a", "b", "c", "a", "d"):
        clock.advance(1)
        sessions.see(*request(name))

    assert known(sessions) == ["a", "c", "d"]


def test_who_waits_is_not_the_one_to_go() -> None:
    clock = ManualClock()
    sessions = Sessions(clock, sessions_max=2)
    sessions.see(*request("waits"))
    with sessions.waiting(*request("waits")):
        for name in ("a", "b", "c"):
            clock.advance(1)
            sessions.see(*request(name))
        during = known(sessions)

    assert during == ["c", "waits"]
    assert known(sessions) == ["c", "waits"]


def test_the_limit_holds_where_everybody_waits() -> None:
    sessions = Sessions(ManualClock(), sessions_max=1)
    sessions.see(*request("first"))
    with sessions.waiting(*request("first")):
        sessions.see(*request("second"))
        during = known(sessions)

    assert during == ["second"]
    assert known(sessions) == ["first"]


def test_a_client_is_what_it_said_last_and_stays_so_where_it_says_nothing() -> None:
    sessions = Sessions(ManualClock(), sessions_max=10)
    sessions.see(*request("c", "a"), software="JAVA 5.0.4", address="10.0.0.1")
    sessions.see(*request("c", "b"), software="JAVA 5.2.1", address="10.0.0.2")
    sessions.see(*request("c", "b"))

    (client,) = sessions.clients()

    assert (client.software, client.address) == ("JAVA 5.2.1", "10.0.0.2")
