"""The one decision against an oracle that was written on its own, and what it promises in words."""

import ipaddress
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.access.policy import (
    ACTIONS_OF,
    CLUSTER,
    Action,
    Effect,
    Grant,
    Kind,
    Match,
    Principal,
    Resource,
    Role,
    checked,
    decide,
    grants_of,
    group,
    topic,
)
from apps.access.policy.grants import SOURCES_MAX

NAMES = ["a", "ab", "abc", "b", "order", "orders", "orders-eu"]
NETWORKS = [ipaddress.ip_network(text) for text in ("10.0.0.0/8", "10.1.0.0/16", "fd00::/8")]
ADDRESSES = ["10.1.2.3", "10.9.9.9", "192.0.2.1", "fd00::1", "::ffff:10.1.2.3", "", "no address"]
BY_THE_CLUSTER = {
    ("topic", "peek"), ("topic", "decide"), ("topic", "run"),
    ("group", "peek"), ("group", "redrive"),
}  # fmt: skip
Decide = Callable[[list[Grant], Action, Resource, str], bool]


def by_oracle(grants: list[Grant], action: Action, resource: Resource, source: str) -> bool:
    """Decide as the rules are written, one grant after another, with nothing compiled."""

    def said(asked: Action) -> Effect | None:
        best, effect = -1, None
        for one in grants:
            if one.kind != resource.kind or asked not in one.actions or not comes(one, source):
                continue
            if one.match is Match.LITERAL:
                rank = 1000 if one.name == resource.name else -1
            elif one.match is Match.PREFIX:
                rank = len(one.name) if resource.name.startswith(one.name) else -1
            else:
                rank = 0
            if rank > best or (rank == best and rank >= 0 and one.effect is Effect.DENY):
                best, effect = rank, one.effect
        return effect

    if action in (Action.GET, Action.LIST) and said(action) is None:
        if action is Action.LIST:
            return by_oracle(grants, Action.GET, resource, source)
        return any(said(other) is Effect.ALLOW for other in set(Action) - {"get", "list"})
    if said(action) is None and (resource.kind, action) in BY_THE_CLUSTER:
        return by_oracle(grants, action, CLUSTER, source)
    return said(action) is Effect.ALLOW


def comes(one: Grant, source: str) -> bool:
    if not one.sources:
        return True
    try:
        address = ipaddress.ip_address(source.removeprefix("::ffff:"))
    except ValueError:
        return one.effect is Effect.DENY
    return any(address in network for network in one.sources)


def by_product(grants: list[Grant], action: Action, resource: Resource, source: str) -> bool:
    principal = Principal("ann", grants)
    first = decide(principal, action, resource, source).is_allowed
    assert decide(principal, action, resource, source).is_allowed == first, "what was kept differs"
    return first


@st.composite
def grants_strategy(draw: st.DrawFn) -> Grant:
    kind = draw(st.sampled_from(list(Kind)))
    matches = [Match.ANY] if kind is Kind.CLUSTER else list(Match)
    match = draw(st.sampled_from(matches))
    return Grant(
        kind=kind,
        actions=draw(st.frozensets(st.sampled_from(sorted(ACTIONS_OF[kind])), min_size=1)),
        match=match,
        name="" if match is Match.ANY else draw(st.sampled_from(NAMES)),
        effect=draw(st.sampled_from(list(Effect))),
        sources=tuple(draw(st.lists(st.sampled_from(NETWORKS), max_size=2))),
    )


QUESTIONS = st.one_of(
    st.tuples(
        st.sampled_from(sorted(ACTIONS_OF[Kind.TOPIC])),
        st.builds(topic, st.sampled_from([*NAMES, "abcd"])),
    ),
    st.tuples(
        st.sampled_from(sorted(ACTIONS_OF[Kind.GROUP])),
        st.builds(group, st.sampled_from([*NAMES, "abcd"])),
    ),
    st.tuples(st.sampled_from(sorted(ACTIONS_OF[Kind.CLUSTER])), st.just(CLUSTER)),
)


@settings(max_examples=500)
@given(
    grants=st.lists(grants_strategy(), max_size=8),
    question=QUESTIONS,
    source=st.sampled_from(ADDRESSES),
)
def test_every_decision_is_the_oracles(
    grants: list[Grant], question: tuple[Action, Resource], source: str
) -> None:
    action, resource = question

    assert by_product(grants, action, resource, source) == by_oracle(
        grants, action, resource, source
    )


def differences(decide_by: Decide, seed: int, cases: int) -> int:
    """Count random policies in which somebody decides otherwise than the oracle."""
    chosen = random.Random(seed)
    found = 0
    for _ in range(cases):
        grants = [_random_grant(chosen) for _ in range(chosen.randrange(7))]
        kind = chosen.choice(list(Kind))
        resource = CLUSTER if kind is Kind.CLUSTER else Resource(kind, chosen.choice(NAMES))
        action = chosen.choice(sorted(ACTIONS_OF[kind]))
        source = chosen.choice(ADDRESSES)
        wanted = by_oracle(grants, action, resource, source)
        found += decide_by(grants, action, resource, source) != wanted
    return found


def _random_grant(chosen: random.Random) -> Grant:
    kind = chosen.choice(list(Kind))
    match = Match.ANY if kind is Kind.CLUSTER else chosen.choice(list(Match))
    actions = sorted(ACTIONS_OF[kind])
    return Grant(
        kind=kind,
        actions=frozenset(chosen.sample(actions, chosen.randint(1, len(actions)))),
        match=match,
        name="" if match is Match.ANY else chosen.choice(NAMES),
        effect=chosen.choice(list(Effect)),
        sources=tuple(chosen.sample(NETWORKS, chosen.choice([0, 0, 1]))),
    )


def test_ten_thousand_random_policies_are_decided_as_the_oracle_does() -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")

    assert differences(by_product, seed, 10_000) == 0


def _allow_wins(grants: list[Grant], action: Action, resource: Resource, source: str) -> bool:
    """Decide with the mistake a peer made: ALLOW before DENY at equal rank."""
    kept = []
    for one in grants:
        same = [
            other
            for other in grants
            if (other.kind, other.match, other.name) == (one.kind, one.match, one.name)
            and action in other.actions
            and comes(other, source)
        ]
        if one.effect is Effect.ALLOW or all(other.effect is Effect.DENY for other in same):
            kept.append(one)
    return by_product(kept, action, resource, source)


def _prefix_first(grants: list[Grant], action: Action, resource: Resource, source: str) -> bool:
    """Decide with the other one: a prefix hides the literal behind it."""
    hidden = any(one.match is Match.PREFIX and one.kind == resource.kind for one in grants)
    kept = [one for one in grants if not (hidden and one.match is Match.LITERAL)]
    return by_product(kept, action, resource, source)


@pytest.mark.parametrize("wrong", [_allow_wins, _prefix_first])
def test_a_planted_mistake_is_caught(wrong: Decide) -> None:
    assert differences(wrong, seed=7, cases=5_000) > 3


@pytest.mark.parametrize(
    ("grants", "is_allowed"),
    [
        ([], False),
        ([("prefix", "ord", "deny"), ("literal", "orders", "allow")], True),
        ([("prefix", "ord", "allow"), ("prefix", "orders", "deny")], False),
        ([("any", "", "deny"), ("prefix", "o", "allow")], True),
        ([("literal", "orders", "allow"), ("literal", "orders", "deny")], False),
        ([("any", "", "allow"), ("any", "", "deny")], False),
        ([("prefix", "orders-", "allow")], False),
    ],
)
def test_ranks_are_as_they_are_written(
    grants: list[tuple[str, str, str]], is_allowed: bool
) -> None:
    listed = [
        checked(kind="topic", actions=["pub"], match=match, name=name, effect=effect)
        for match, name, effect in grants
    ]

    decision = decide(Principal("ann", listed), Action.PUB, topic("orders"))

    assert decision.is_allowed is is_allowed
    if not is_allowed:
        assert decision.reason == "ann has no right to pub topic 'orders'"


def test_a_super_user_may_everything_whatever_its_grants_deny() -> None:
    denied = checked(kind="topic", actions=["pub"], match="any", effect="deny")

    root = Principal("root", [denied], is_super=True)

    assert decide(root, Action.PUB, topic("orders")).is_allowed
    assert decide(root, Action.ADMINISTER, CLUSTER).is_allowed


def test_an_admin_is_no_super_user() -> None:
    denied = checked(kind="topic", actions=["peek"], match="literal", name="pay", effect="deny")

    boss = Principal("boss", [*grants_of(Role.ADMIN), denied])

    assert decide(boss, Action.PEEK, topic("orders")).is_allowed
    assert not decide(boss, Action.PEEK, topic("pay")).is_allowed


def test_scopes_narrow_and_never_widen() -> None:
    held = checked(kind="topic", actions=["pub"], match="prefix", name="ord")
    scope = checked(kind="topic", actions=["pub", "sub"], match="literal", name="orders")
    other = checked(kind="topic", actions=["pub"], match="literal", name="pay")

    narrowed = Principal("ann", [held]).narrowed([scope, other])

    assert decide(narrowed, Action.PUB, topic("orders")).is_allowed
    assert decide(narrowed, Action.GET, topic("orders")).is_allowed
    assert not decide(narrowed, Action.PUB, topic("ordinary")).is_allowed
    assert not decide(narrowed, Action.SUB, topic("orders")).is_allowed
    assert not decide(narrowed, Action.PUB, topic("pay")).is_allowed
    assert not decide(
        Principal("root", is_super=True).narrowed([scope]), Action.ADMINISTER, CLUSTER
    ).is_allowed


def test_retry_topics_and_dead_letters_go_with_their_group() -> None:
    everything = [checked(kind="topic", actions=["pub", "sub", "peek"], match="any")]
    billing = checked(kind="group", actions=["sub"], match="literal", name="billing")

    ann, bob = Principal("ann", everything), Principal("bob", [billing])

    for name in ("%RETRY%billing", "%DLQ%billing"):
        assert not decide(ann, Action.SUB, topic(name)).is_allowed
        assert not decide(ann, Action.PUB, topic(name)).is_allowed
        assert decide(bob, Action.SUB, topic(name)).is_allowed
        assert not decide(bob, Action.PUB, topic(name)).is_allowed
        assert not decide(bob, Action.PEEK, topic(name)).is_allowed


def test_a_lite_topic_goes_with_its_parent() -> None:
    """Parents may have a bar in their names: the last one parts the two."""
    sender = Principal("ann", [checked(kind="topic", actions=["pub"], match="prefix", name="in")])
    reader = Principal(
        "bob", [checked(kind="topic", actions=["sub", "peek"], match="literal", name="in|box")]
    )
    admin = Principal("eve", grants_of(Role.ADMIN))

    lite = topic("%LITE%in|box|alice")

    assert decide(sender, Action.PUB, lite).is_allowed
    assert not decide(sender, Action.SUB, lite).is_allowed
    assert decide(reader, Action.SUB, lite).is_allowed
    assert decide(reader, Action.PEEK, lite).is_allowed
    assert not decide(reader, Action.PUB, lite).is_allowed
    assert not decide(reader, Action.SUB, topic("%LITE%in|alice")).is_allowed
    # There is nothing of its own to be changed or deleted.
    assert not decide(admin, Action.DELETE, lite).is_allowed
    assert decide(admin, Action.PUB, lite).is_allowed


@pytest.mark.parametrize("name", ["%LITE%", "%LITE%inbox", "%LITE%%LITE%inbox|a|b", "%LITE%|"])
def test_a_name_that_is_like_a_lite_topics_and_none_gives_no_right_to_send(name: str) -> None:
    everything = [checked(kind="topic", actions=["pub", "sub"], match="any")]

    for action in (Action.PUB, Action.SUB):
        assert not decide(Principal("ann", everything), action, topic(name)).is_allowed


def test_traces_are_told_by_everybody_who_works_and_read_by_those_who_see_all() -> None:
    works = Principal("ann", [checked(kind="topic", actions=["pub"], match="any")])
    looks = Principal("bob", grants_of(Role.VIEWER))
    operates = Principal("eve", grants_of(Role.OPERATOR))
    traces = topic("rmq_sys_trace")

    assert decide(works, Action.PUB, traces).is_allowed
    assert not decide(works, Action.SUB, traces).is_allowed
    assert not decide(looks, Action.PUB, traces).is_allowed
    assert decide(operates, Action.PEEK, traces).is_allowed


@pytest.mark.parametrize("role", list(Role))
def test_a_role_is_not_more_than_the_next_one(role: Role) -> None:
    order = [Role.NONE, Role.VIEWER, Role.OPERATOR, Role.ADMIN]
    below = order[max(0, order.index(role) - 1)]

    more, less = Principal("x", grants_of(role)), Principal("y", grants_of(below))

    for kind, actions in ACTIONS_OF.items():
        for action in actions:
            resource = CLUSTER if kind is Kind.CLUSTER else Resource(kind, "orders")
            if decide(less, action, resource).is_allowed:
                assert decide(more, action, resource).is_allowed
    assert decide(more, Action.ADMINISTER, CLUSTER).is_allowed == (role is Role.ADMIN)


def test_nobody_may_nothing() -> None:
    assert not decide(None, Action.LIST, topic("orders")).is_allowed


def test_a_mistake_in_deciding_is_a_no(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = []

    def fail(*_: object) -> None:
        failed.append(1)
        raise RuntimeError("planted")

    principal = Principal("root", is_super=True)
    monkeypatch.setattr(Principal, "_decided", fail)

    decision = decide(principal, Action.PUB, topic("orders"))

    assert failed
    assert not decision.is_allowed


@pytest.mark.parametrize(
    "words",
    [
        {"kind": "disk"},
        {"actions": []},
        {"actions": ["fly"]},
        {"actions": ["administer"]},
        {"match": "regex"},
        {"name": ""},
        {"match": "any"},
        {"name": "a b"},
        {"name": "x" * 128},
        {"name": "%RETRY%billing"},
        {"name": "%LITE%inbox|alice"},
        {"name": "rmq_sys_trace"},
        {"name": "SCHEDULE_TOPIC_XXXX"},
        {"effect": "maybe"},
        {"sources": ["10.0.0.1/8"]},
        {"sources": ["10.0.0.0/8"] * (SOURCES_MAX + 1)},
        {"kind": "cluster", "actions": ["get"]},
    ],
)
def test_a_grant_that_makes_no_sense_is_refused(words: dict[str, object]) -> None:
    good = {"kind": "topic", "actions": ["pub"], "match": "literal", "name": "orders"}
    assert checked(**good).actions == {Action.PUB}  # type: ignore[arg-type]

    with pytest.raises(ValueError, match=r"\w"):
        checked(**{**good, **words})  # type: ignore[arg-type]
