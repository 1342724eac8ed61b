"""What a picture shows to whom: rows of what may be seen, sums of these, and nothing that leaks."""

import json
import random
from typing import Any

import pytest

from apps.access.policy import CLUSTER, Action, Principal, Role, Sight, checked, grants_of, topic
from apps.access.policy import group as group_of
from apps.console.audience import Audience
from apps.console.feed import Feed
from apps.console.picture import Picture
from apps.console.sights import seen
from apps.core.languages import DEFAULT
from tests.web.console import conftest as console
from tests.web.console.fakes import FakeEngine
from tests.web.console.test_care_pages import backlog, held
from tests.web.console.texts import worded

clock, watch, last_hour, deaths, pipelines, feed = (
    console.clock, console.watch, console.last_hour, console.deaths, console.pipelines,
    console.feed,
)  # fmt: skip
engine = console.engine


def principal(*grants: tuple[str, str, str], role: Role = Role.NONE, **more: Any) -> Principal:
    """Return one with grants: an action, a kind, and a name, or a prefix that ends in *."""
    return Principal("vera", [*grants_of(role), *map(_grant, grants)], **more)


def _grant(words: tuple[str, str, str]) -> Any:
    action, kind, name = words
    effect = "deny" if action.startswith("-") else "allow"
    match = "prefix" if name.endswith("*") else "literal" if name else "any"
    return checked(
        kind=kind, actions=[action.strip("-")], match=match, name=name.rstrip("*"), effect=effect
    )


@pytest.fixture
def picture(feed: Feed, engine: FakeEngine) -> Any:
    """Return a picture of two topics and two groups, with locks and rates that are known."""
    for name in ("orders", "covert"):
        engine.add_topic(name, queue_count=2)
        engine.send(name, 0, 9)
        engine.consume(f"of-{name}", name, 0, upto=3)
    engine.consume("of-orders", "covert", 1, upto=0)
    engine.left = [backlog(), backlog(group="of-covert", topic="covert")]
    engine.locks = [held()]
    return feed.sample(engine.api).snapshot


@pytest.mark.parametrize(
    ("who", "is_whole", "sees_everything"),
    [
        (principal(role=Role.ADMIN), True, True),
        (principal(role=Role.OPERATOR), True, True),
        (principal(role=Role.VIEWER), False, True),
        (principal(("-list", "topic", "covert"), role=Role.VIEWER), False, False),
        (principal(("-get", "group", "x*"), role=Role.ADMIN), False, False),
        (principal(("-peek", "group", "x"), role=Role.OPERATOR), False, True),
        (principal(is_super=True), True, True),
        (principal(("get", "topic", "orders")), False, False),
        (principal(role=Role.ADMIN).narrowed([_grant(("get", "topic", "orders"))]), False, False),
    ],
)
def test_who_sees_everything_is_told_from_grants_alone(
    who: Principal, is_whole: bool, sees_everything: bool
) -> None:
    sight = Sight(who)

    assert (sight.is_whole, sight.sees_everything) == (is_whole, sees_everything)


@pytest.mark.parametrize("seed", range(40))
def test_a_sight_says_what_the_decision_says(seed: int) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    names = ["a", "ab", "abc", "b", "%RETRY%a", "%DLQ%ab"]
    grants = [
        (
            chance.choice(["", "", "-"]) + chance.choice(["get", "list", "peek"]),
            chance.choice(["topic", "group"]),
            chance.choice(["", "a", "a*", "ab*", "abc", "b"]),
        )
        for _ in range(chance.randrange(6))
    ]
    who = principal(*grants, role=chance.choice(list(Role)))

    sight = Sight(who)

    for name in names:
        for thing, is_shown in (
            (topic(name), sight.topic(name)),
            (group_of(name), sight.group(name)),
        ):
            expected = all(who.may(one, thing).is_allowed for one in (Action.GET, Action.LIST))
            assert is_shown == expected, (grants, thing)
            assert sight.peeks(thing) == who.may(Action.PEEK, thing).is_allowed
    assert sight.cluster == who.may(Action.GET, CLUSTER).is_allowed


def test_those_with_the_same_grants_share_one_sight_and_others_do_not() -> None:
    one = Sight(principal(("get", "topic", "a"), ("get", "group", "g")))
    same = Sight(principal(("get", "group", "g"), ("get", "topic", "a")))
    other = Sight(principal(("get", "topic", "a")))

    assert one.key == same.key != other.key
    assert Sight(principal(role=Role.ADMIN)).key == Sight(principal(is_super=True)).key


def test_scopes_from_one_address_are_remembered_for_no_other() -> None:
    # A token's scopes may hold from some networks only. What was decided for one address was once
    # remembered for every address, unless the account's own grants named networks as well.
    scope = checked(kind="topic", actions=["get"], match="any", sources=["10.0.0.0/8"])
    token = principal(role=Role.ADMIN).narrowed([scope])

    assert token.may(Action.GET, topic("a"), "10.1.2.3").is_allowed
    assert not token.may(Action.GET, topic("a"), "192.0.2.1").is_allowed


def test_a_picture_names_nothing_that_may_not_be_seen(picture: Any) -> None:
    sight = Sight(principal(("get", "topic", "orders"), ("get", "group", "of-orders")))

    found = seen(picture, sight)

    assert "covert" in json.dumps(worded(picture))
    assert "covert" not in json.dumps(worded(found))
    assert [row["name"] for row in found["topics"]] == ["orders"]
    assert [row["name"] for row in found["groups"]] == ["of-orders"]


def test_sums_are_of_the_rows_that_are_there(picture: Any) -> None:
    found = seen(picture, Sight(principal(("get", "topic", "orders"), ("get", "group", "of-"))))

    totals = found["totals"]
    assert totals["topic_count"] == len(found["topics"]) == 1
    assert totals["held"] == sum(row["held"] for row in found["topics"]) == 9
    assert totals["queue_count"] == 2
    assert totals["group_count"] == 0
    # Without a group nothing is late: there is no lag to speak of.
    assert totals["lag"] is None


def test_figures_of_a_group_are_the_groups_whatever_topics_are_shown(picture: Any) -> None:
    whole = next(row for row in picture["groups"] if row["name"] == "of-orders")

    (row,) = seen(picture, Sight(principal(("get", "group", "of-orders"))))["groups"]

    assert (row["lag"], row["delivered"]) == (whole["lag"], whole["delivered"])
    assert (row["topics"], row["queues"]) == ([], [])


def test_what_is_of_the_installation_is_unknown_to_who_may_not_see_it(picture: Any) -> None:
    found = seen(picture, Sight(principal(("get", "topic", ""), ("get", "group", ""))))
    cluster = seen(picture, Sight(principal(("get", "cluster", ""), ("get", "topic", "orders"))))

    assert set(found["store"].values()) == {None}
    assert set(found["transactions"].values()) == {None}
    assert found["delays"]["pending"] is None
    assert found["delays"]["buckets"] == []
    assert found["clockwork"]["banner"] is None
    assert found["pipelines"]["jobs"] is None
    assert found["totals"]["parked"] is None
    assert cluster["store"] == picture["store"]


def test_an_account_without_any_right_is_shown_an_empty_picture(picture: Any) -> None:
    for sight in (Sight(None), Sight(principal())):
        found = seen(picture, sight)

        rows = [found["topics"], found["groups"], found["locks"]["rows"], found["locks"]["lines"]]
        assert rows == [[], [], [], []]


def test_what_consumers_say_is_for_those_who_may_peek(picture: Any) -> None:
    row = picture["locks"]["rows"][0]
    row["trouble"], row["seen_trouble"] = "Blocked. card 4711 refused", "Blocked."

    def trouble(who: Principal) -> str:
        return str(seen(picture, Sight(who))["locks"]["rows"][0]["trouble"])

    assert trouble(principal(role=Role.VIEWER)) == "Blocked."
    assert trouble(principal(role=Role.OPERATOR)) == "Blocked. card 4711 refused"
    peeking = ("peek", "group", row["group"])
    assert trouble(principal(peeking, role=Role.VIEWER)) == "Blocked. card 4711 refused"


def test_a_picture_is_filtered_once_for_all_who_see_the_same(
    picture: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []
    monkeypatch.setattr("apps.console.picture.seen", lambda *args: made.append(args) or seen(*args))
    audience = Audience()
    sights = [Sight(principal(("get", "topic", name))) for name in ("a", "b")]

    with (
        audience.joined("overview", sights[0]),
        audience.joined("overview", sights[0]),
        audience.joined("locks", sights[0]),
        audience.joined("overview", sights[1]),
    ):
        audience.show((1, 1), lambda: Picture(picture))

    # Two sights, three channels, four viewers.
    assert len(made) == 2
    assert not audience._channels


def test_channels_of_two_sights_never_share_a_frame(picture: Any) -> None:
    audience = Audience()
    narrow = Sight(principal(("get", "topic", "orders")))

    with audience.joined("overview", narrow) as one, audience.joined("overview") as other:
        audience.show((1, 1), lambda: Picture(picture))

        texts = one.channel.text_after(0, DEFAULT), other.channel.text_after(0, DEFAULT)

    assert [("covert" in str(text)) for text in texts] == [False, True]
