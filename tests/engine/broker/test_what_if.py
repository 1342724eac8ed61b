"""Who would read what: another strategy, other members, and nothing of it in force."""

import pytest

from apps.engine.caretypes import WhatIfRequest
from apps.engine.errors import InvalidArgument, InvalidName
from apps.engine.types import Strategy
from tests.engine.broker.brokerbench import BrokerBench


@pytest.fixture
def bench() -> BrokerBench:
    return BrokerBench(orders_queue_count=4)


def test_more_members_would_take_queues_from_those_there_are(bench: BrokerBench) -> None:
    bench.join("a")
    generation = bench.join("b")

    found = bench.broker.what_if(WhatIfRequest(group="g", member_count=4))

    assert found.added == ("~1", "~2")
    assert {name: got["orders"] for name, got in found.assignment.items()} == {
        "a": (0,), "b": (1,), "~1": (2,), "~2": (3,),
    }  # fmt: skip
    assert found.before == {"a": {"orders": (0, 1)}, "b": {"orders": (2, 3)}}
    assert (found.queues_moved, found.idle) == (3, ())
    assert bench.broker.assigner.share("g", "a") == (generation, {"orders": (0, 1)})


def test_more_members_than_queues_leave_some_idle(bench: BrokerBench) -> None:
    bench.join("a")

    found = bench.broker.what_if(WhatIfRequest(group="g", member_count=6))

    assert found.idle == ("~4", "~5")


def test_fewer_members_are_the_first_ones(bench: BrokerBench) -> None:
    bench.join("a")
    bench.join("b")

    found = bench.broker.what_if(WhatIfRequest(group="g", member_count=1))

    assert found.assignment == {"a": {"orders": (0, 1, 2, 3)}}
    assert found.queues_moved == 2


def test_another_strategy_shares_out_otherwise(bench: BrokerBench) -> None:
    bench.join("a")
    bench.join("b")

    found = bench.broker.what_if(WhatIfRequest(group="g", strategy=Strategy.AVG_BY_CIRCLE))

    assert found.strategy is Strategy.AVG_BY_CIRCLE
    assert found.assignment == {"a": {"orders": (0, 2)}, "b": {"orders": (1, 3)}}


def test_without_a_member_it_is_about_the_topics_the_group_has_read(bench: BrokerBench) -> None:
    bench.send(1)
    bench.commit(1)

    found = bench.broker.what_if(WhatIfRequest(group="g", member_count=2))

    assert found.assignment == {"~1": {"orders": (0, 1)}, "~2": {"orders": (2, 3)}}
    assert found.before == {}


def test_what_cannot_be_is_refused(bench: BrokerBench) -> None:
    for count in (-1, 1 << 20):
        with pytest.raises(InvalidArgument):
            bench.broker.what_if(WhatIfRequest(group="g", member_count=count))
    with pytest.raises(InvalidName):
        bench.broker.what_if(WhatIfRequest(group="", member_count=1))
