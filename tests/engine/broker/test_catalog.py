"""The catalog: what it answers, and that its file comes back as it was, or is called damaged."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.engine.broker import catalogfile
from apps.engine.broker.catalog import FILE, Catalog
from apps.engine.errors import NotPermitted, StoreDamaged, UnknownQueue, UnknownTopic
from apps.engine.failpoints import Failpoints
from apps.engine.files import atomic
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.types import (
    CatalogSnapshot,
    ConsumeFrom,
    GroupSpec,
    LiteModel,
    Strategy,
    TopicSpec,
    TopicType,
)

NAMES = st.text("abc%_-|Z9", min_size=1, max_size=12)
TOPICS = st.builds(
    TopicSpec,
    name=NAMES,
    queue_count=st.integers(1, 1024),
    type=st.sampled_from(TopicType),
    perm=st.sampled_from([0, 2, 4, 6]),
    write_queue_count=st.none() | st.integers(0, 1024),
    lite_ttl_ms=st.none() | st.integers(1, 2**40),
)
TIMES = st.none() | st.integers(0, 2**40)
GROUPS = st.builds(
    GroupSpec,
    name=NAMES,
    enabled=st.booleans(),
    ordered=st.booleans(),
    strategy=st.none() | st.sampled_from(Strategy),
    fixed=st.dictionaries(
        st.text(max_size=8).filter(str.isprintable),
        st.dictionaries(NAMES, st.lists(st.integers(0, 1023), max_size=5).map(tuple), max_size=3),
        max_size=3,
    ),
    rooms=st.lists(NAMES, max_size=3).map(tuple),
    inner=st.sampled_from(Strategy),
    consume_from=st.sampled_from(ConsumeFrom),
    consume_from_ms=TIMES,
    retry_max=TIMES,
    access_lock_ms=TIMES,
    lite_model=st.sampled_from(LiteModel),
)


def by_name(specs: list[TopicSpec]) -> dict[str, TopicSpec]:
    return {spec.name: spec for spec in specs}


def a_catalog(**about: object) -> Catalog:
    catalog = Catalog(SimulatedDisk(), failpoints=Failpoints())
    catalog.publish(CatalogSnapshot(version=1, **about))  # type: ignore[arg-type]
    return catalog


@given(topics=st.lists(TOPICS, max_size=5), groups=st.lists(GROUPS, max_size=5))
def test_a_snapshot_comes_back_as_it_was_written(
    topics: list[TopicSpec], groups: list[GroupSpec]
) -> None:
    snapshot = CatalogSnapshot(
        version=9,
        topics={spec.name: spec for spec in topics},
        groups={spec.name: spec for spec in groups},
    )
    disk = SimulatedDisk()

    Catalog(disk, failpoints=Failpoints()).publish(snapshot)

    assert Catalog(disk, failpoints=Failpoints()).snapshot == snapshot


def test_a_file_from_before_there_were_groups_is_read() -> None:
    disk = SimulatedDisk()
    content: dict[str, object] = {"version": 3, "topics": [["orders", 4, "FIFO", 6]]}
    atomic.replace(disk, FILE, content)

    catalog = Catalog(disk, failpoints=Failpoints())

    orders = TopicSpec(name="orders", queue_count=4, type=TopicType.FIFO, perm=6)
    assert catalog.snapshot == CatalogSnapshot(version=3, topics={"orders": orders})


def a_group(**changes: object) -> dict[str, object]:
    content = json.loads(
        json.dumps(catalogfile.dump(CatalogSnapshot(version=1, groups={"g": GroupSpec(name="g")})))
    )
    (row,) = content["groups"]
    return {**content, "groups": [{**row, **changes}]}


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"version": 1},
        {"version": "1", "topics": []},
        {"version": -1, "topics": []},
        {"version": True, "topics": []},
        {"version": 1, "topics": {}},
        {"version": 1, "topics": ["abcd"]},
        {"version": 1, "topics": [["t"]]},
        {"version": 1, "topics": [["t", 0, "FIFO", 6]]},
        {"version": 1, "topics": [["t", 1025, "FIFO", 6]]},
        {"version": 1, "topics": [["t", 1.5, "FIFO", 6]]},
        {"version": 1, "topics": [["t", 1, "OTHER", 6]]},
        {"version": 1, "topics": [[1, 1, "FIFO", 6]]},
        {"version": 1, "topics": [["t", 1, "FIFO", 6, -1]]},
        {"version": 1, "topics": [["t", 1, "FIFO", 6, None, 0]]},
        {"version": 1, "topics": [["t", 1, "FIFO", 6, None, 1, 1]]},
        {"version": 1, "topics": [], "groups": {}},
        {"version": 1, "topics": [], "groups": ["g"]},
        {"version": 1, "topics": [], "groups": [{"name": "g"}]},
        a_group(name=None),
        a_group(enabled=1),
        a_group(ordered="no"),
        a_group(strategy="BEST"),
        a_group(strategy=[]),
        a_group(fixed=[]),
        a_group(fixed={"a": []}),
        a_group(fixed={"a": {"t": 1}}),
        a_group(fixed={"a": {"t": [1024]}}),
        a_group(fixed={"a": {"t": ["0"]}}),
        a_group(rooms="north"),
        a_group(rooms=[1]),
        a_group(inner=None),
        a_group(consume_from="middle"),
        a_group(consume_from_ms=-1),
        a_group(retry_max=1.0),
        a_group(access_lock_ms="1"),
    ],
)
def test_a_file_that_holds_something_else_is_damage(content: dict[str, object]) -> None:
    disk = SimulatedDisk()
    atomic.replace(disk, FILE, content)

    with pytest.raises(StoreDamaged):
        Catalog(disk, failpoints=Failpoints())


def test_queues_that_take_no_messages_yet_can_be_read() -> None:
    spec = TopicSpec(name="orders", queue_count=4, write_queue_count=2)
    catalog = a_catalog(topics={"orders": spec})

    assert catalog.writable("orders", 1) == spec
    assert catalog.readable("orders", 3) == spec
    with pytest.raises(UnknownQueue):
        catalog.writable("orders", 2)
    with pytest.raises(UnknownQueue):
        catalog.readable("orders", 4)


def test_a_topic_may_take_no_messages_at_all() -> None:
    catalog = a_catalog(topics=by_name([TopicSpec(name="t", queue_count=1, write_queue_count=0)]))

    with pytest.raises(UnknownQueue):
        catalog.writable("t", 0)


def test_a_write_count_above_the_queues_makes_no_queues() -> None:
    catalog = a_catalog(topics=by_name([TopicSpec(name="t", queue_count=1, write_queue_count=9)]))

    with pytest.raises(UnknownQueue):
        catalog.writable("t", 1)


def test_a_group_nobody_decided_about_has_the_defaults() -> None:
    assert a_catalog().group("g") == GroupSpec(name="g")


def test_a_disabled_group_may_not_be_used() -> None:
    catalog = a_catalog(groups={"g": GroupSpec(name="g", enabled=False)})

    with pytest.raises(NotPermitted, match="'g' is disabled"):
        catalog.usable_group("g")


def test_a_topic_that_is_not_there_is_unknown() -> None:
    with pytest.raises(UnknownTopic):
        a_catalog().readable("gone")
