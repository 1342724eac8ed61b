"""INV-15 by hand and by seeds: streams that skip, repeat, go back, differ, or are not true."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.histories import stream
from tests.histories.stream import Account, Frame, Known
from tests.histories.verdicts import Validity, Verdict

SECOND = 1_000_000_000
MS = 1_000_000


def numbers_of(state: Any) -> dict[str, int | None]:
    """Return the numbers of a state that only grow."""
    return {row["name"]: row["sent"] for row in state["shown"]["topics"]}


def state_at(second: int) -> dict[str, Any]:
    """Return what there is to see at a second: two topics, and one that comes and goes."""
    topics = [{"name": "orders", "sent": 10 * second}, {"name": "bills", "sent": second}]
    if second % 5 == 3:
        topics.insert(0, {"name": "brief", "sent": 1})
    return {"sampled_at_ms": second * 1_000, "known": "live", "shown": {"topics": topics}}


def change(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return the delta of two states, as a server would write it."""
    before = {row["name"]: row for row in old["shown"]["topics"]}
    after = {row["name"]: row for row in new["shown"]["topics"]}
    rows: dict[str, Any] = {
        "by": "name",
        "+": {name: row for name, row in after.items() if name not in before},
        "~": {
            name: {"+": {"sent": row["sent"]}}
            for name, row in after.items()
            if name in before and before[name] != row
        },
    }
    if list(before) != list(after):
        rows["order"] = list(after)
    return {
        "+": {"sampled_at_ms": new["sampled_at_ms"]},
        "~": {"shown": {"~": {"topics": rows}}},
    }


def served(seed: int, *, viewers: int = 3, seconds: int = 60) -> list[Frame]:
    """Return the frames of viewers that are slow, are dropped and come back, at a right server."""
    chance = random.Random(seed)
    frames = []
    for number in range(viewers):
        has: int | None = None
        connection = 0
        for second in range(1, seconds + 1):
            if has is not None and chance.random() < 0.05:
                has, connection = None, connection + 1
            if chance.random() < 0.2 and second != seconds:
                continue  # Away, or too slow for this one.
            if has == second - 1:
                document = {"kind": "delta", "delta": change(state_at(has), state_at(second))}
            else:
                document = {"kind": "whole", "state": state_at(second)}
            frames.append(
                Frame(
                    viewer=f"v{number}", connection=connection, run=1, view="overview",
                    at_ns=second * SECOND + number, document={**document, "version": second},
                )
            )  # fmt: skip
            has = second
    return frames


def account(frames: list[Frame], seconds: int = 60) -> Account:
    """Return the account of a run: what was answered by each second, and what was asked for."""
    return Account(
        frames=frames,
        answered=[
            Known(at_ns=second * SECOND - 1, values={"orders": 10 * second, "bills": second})
            for second in range(1, seconds + 1)
        ],
        asked=[
            Known(at_ns=second * SECOND, values={"orders": 10 * second, "bills": second})
            for second in range(1, seconds + 1)
        ],
        final={"orders": 10 * seconds, "bills": seconds},
    )


def judged(told: Account) -> Verdict:
    verdict = stream.check(told, numbers_of)
    print(verdict)
    return verdict


@pytest.mark.parametrize("seed", range(20))
def test_a_stream_with_drops_and_slow_viewers_is_right(seed: int) -> None:
    verdict = judged(account(served(seed)))

    assert verdict.validity is Validity.VALID
    assert verdict.counts["deltas"] > 20
    assert verdict.counts["gaps with a marker"] > 0
    assert verdict.counts["compared"] > 0


def test_a_run_without_a_change_shows_nothing() -> None:
    wholes = [frame for frame in served(1) if frame.document["kind"] == "whole"]

    assert judged(replace(account(wholes), final={})).validity is Validity.UNKNOWN


Mutation = Callable[[list[Frame], random.Random], None]


def _a_delta(frames: list[Frame], chance: random.Random) -> int:
    found = [
        number
        for number, frame in enumerate(frames[:-1])
        if frame.document["kind"] == "delta"
        # With a successor on the same connection that is a change too.
        and frames[number + 1].document["kind"] == "delta"
        and frames[number + 1].viewer == frame.viewer
        and frames[number + 1].connection == frame.connection
    ]
    return chance.choice(found)


def lost(frames: list[Frame], chance: random.Random) -> None:
    """Leave out a change, and go on as if it had been sent."""
    del frames[_a_delta(frames, chance)]


def repeated(frames: list[Frame], chance: random.Random) -> None:
    """Send a frame twice."""
    number = _a_delta(frames, chance)
    frames.insert(number + 1, replace(frames[number], at_ns=frames[number].at_ns + 5))


def swapped(frames: list[Frame], chance: random.Random) -> None:
    """Send two frames in the wrong order."""
    number = _a_delta(frames, chance)
    one, other = frames[number], frames[number + 1]
    frames[number : number + 2] = [
        replace(other, at_ns=one.at_ns), replace(one, at_ns=other.at_ns),
    ]  # fmt: skip


def begun_with_a_change(frames: list[Frame], chance: random.Random) -> None:
    """Let a viewer that came back go on where it was."""
    number = _a_delta(frames, chance)
    frames[number] = replace(frames[number], connection=99)


def changed(frames: list[Frame], number: int, document: dict[str, Any]) -> None:
    """Put another document in a frame's place."""
    frames[number] = replace(frames[number], document={**frames[number].document, **document})


def a_row_that_stays(frames: list[Frame], chance: random.Random) -> None:
    """Forget to say that a row is gone."""
    for number, frame in enumerate(frames):
        topics = frame.document.get("delta", {}).get("~", {}).get("shown", {}).get("~", {})
        rows = topics.get("topics", {})
        if "order" in rows and len(rows["order"]) == 2:
            kept = {name: value for name, value in rows.items() if name != "order"}
            changed(
                frames, number,
                {"delta": {**frame.document["delta"], "~": {"shown": {"~": {"topics": kept}}}}},
            )  # fmt: skip
            return
    raise AssertionError(f"no row went away: {chance}")


def a_number_of_nobody(frames: list[Frame], chance: random.Random) -> None:
    """Show more than anybody asked for."""
    number = _a_delta(frames, chance)
    state = state_at(frames[number].document["version"])
    state["shown"]["topics"][-1]["sent"] += 1_000
    changed(frames, number, {"kind": "whole", "state": state})


def a_number_of_before(frames: list[Frame], chance: random.Random) -> None:
    """Show less than somebody was told before the picture was taken."""
    number = _a_delta(frames, chance)
    state = state_at(frames[number].document["version"])
    state["shown"]["topics"][-1]["sent"] -= 1
    changed(frames, number, {"kind": "whole", "state": state})


def a_time_that_goes_back(frames: list[Frame], chance: random.Random) -> None:
    """Show an older picture under a newer version, on a connection that comes back."""
    number = _a_delta(frames, chance)
    older = state_at(max(1, frames[number].document["version"] - 5))
    changed(frames, number, {"kind": "whole", "state": older})


def another_state_of_one_version(frames: list[Frame], chance: random.Random) -> None:
    """Answer who asks for all of it with something else than it holds."""
    number = _a_delta(frames, chance)
    version = frames[number].document["version"]
    state = state_at(version)
    state["shown"]["topics"].reverse()
    again = replace(
        frames[number], at_ns=frames[number].at_ns + 5,
        document={"kind": "whole", "version": version, "state": state},
    )  # fmt: skip
    frames.insert(number + 1, again)


MUTATIONS: list[Mutation] = [
    another_state_of_one_version,
    lost, repeated, swapped, begun_with_a_change, a_row_that_stays, a_number_of_nobody,
    a_number_of_before, a_time_that_goes_back,
]  # fmt: skip


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("seed", range(5))
def test_a_stream_that_is_wrong_is_caught(seed: int, mutation: Mutation) -> None:
    frames = served(seed)
    mutation(frames, random.Random(seed))

    assert judged(account(frames)).validity is Validity.INVALID, f"seed {seed}"


def test_a_viewer_that_ends_with_other_numbers_than_there_are_is_caught() -> None:
    told = account(served(1))

    assert judged(replace(told, final={"orders": 601})).validity is Validity.INVALID


def test_who_asks_for_all_of_it_may_be_given_what_it_has() -> None:
    frames = served(3)
    number = _a_delta(frames, random.Random(3))
    version = frames[number].document["version"]
    again = {"kind": "whole", "version": version, "state": state_at(version)}
    frames.insert(
        number + 1, replace(frames[number], at_ns=frames[number].at_ns + 5, document=again)
    )

    verdict = judged(account(frames))

    assert verdict.validity is Validity.VALID
    assert verdict.counts["told again"] == 1


def test_versions_begin_anew_on_a_new_connection() -> None:
    frames = [frame for frame in served(2, viewers=1) if frame.connection == 0][:4]
    again = [
        replace(frame, connection=1, run=2, at_ns=frame.at_ns + 60 * SECOND) for frame in frames
    ]

    verdict = stream.check(Account(frames=[*frames, *again]), numbers_of)

    assert verdict.validity is not Validity.INVALID, str(verdict)
