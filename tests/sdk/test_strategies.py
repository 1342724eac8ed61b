"""The client's strategies share out as the broker's do."""

import hypothesis.strategies as st
import mqclient
import pytest
from hypothesis import given, settings
from mqclient import BrokerQueue, InvalidArgument, Strategy

from apps.engine.broker.strategies import allocation
from apps.engine.broker.strategies.queues import BrokerQueue as EngineQueue
from apps.engine.errors import InvalidArgument as EngineInvalidArgument
from apps.engine.types import Strategy as EngineStrategy

ROOMS = ["", "north", "south", "x"]

clients = st.lists(st.text(max_size=6), max_size=12)
brokers = st.sampled_from(["b", "north@b1", "north@b2", "south@b1", "@b", "x@", "a@b@c"])
queues = st.lists(st.tuples(st.sampled_from(["t", "u"]), brokers, st.integers(0, 20)), max_size=40)


def test_the_names_are_the_brokers() -> None:
    assert [(s.name, s.value) for s in Strategy] == [(s.name, s.value) for s in EngineStrategy]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(list(Strategy)), st.sampled_from(list(Strategy)), clients, queues, st.data())
def test_client_and_broker_share_out_alike(
    strategy: Strategy,
    inner: Strategy,
    clients: list[str],
    queues: list[tuple[str, str, int]],
    data: st.DataObject,
) -> None:
    known = st.sampled_from(clients or ["nobody"])
    fixed = data.draw(st.dictionaries(known, st.lists(st.sampled_from(queues or [("t", "b", 0)]))))
    sites = data.draw(st.dictionaries(known, st.sampled_from(ROOMS)))
    rooms = data.draw(st.lists(st.sampled_from(ROOMS)))

    def told(kind: type[BrokerQueue] | type[EngineQueue]) -> dict[str, object]:
        listed = {client: [kind(*names) for names in found] for client, found in fixed.items()}
        return {"fixed": listed, "sites": sites, "rooms": rooms}

    try:
        expected = allocation.allocate(
            EngineStrategy(strategy),
            clients,
            [EngineQueue(*names) for names in queues],
            inner=EngineStrategy(inner),
            **told(EngineQueue),  # type: ignore[arg-type]
        )
    except EngineInvalidArgument as refusal:
        with pytest.raises(InvalidArgument, match=str(refusal)):
            mqclient.allocate(
                strategy,
                clients,
                [BrokerQueue(*names) for names in queues],
                inner=inner,
                **told(BrokerQueue),  # type: ignore[arg-type]
            )
        return

    found = mqclient.allocate(
        strategy,
        clients,
        [BrokerQueue(*names) for names in queues],
        inner=inner,
        **told(BrokerQueue),  # type: ignore[arg-type]
    )

    def plain(shares: object) -> list[tuple[str, list[tuple[str, str, int]]]]:
        return [
            (client, [(queue.topic, queue.broker, queue.queue) for queue in share])
            for client, share in shares.items()  # type: ignore[attr-defined]
        ]

    assert plain(found) == plain(expected)


def test_a_strategy_may_be_named_by_its_text() -> None:
    queues = [BrokerQueue("t", "b", number) for number in range(3)]

    assert mqclient.allocate("AVG", ["a", "b"], queues) == {"a": queues[:2], "b": queues[2:]}
    with pytest.raises(InvalidArgument, match="there is no strategy 'BEST'"):
        mqclient.allocate("BEST", ["a"], queues)
