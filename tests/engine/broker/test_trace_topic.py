"""The topic of traces: there without anybody's decision, for clients to write to and to read."""

import pytest

from apps.engine.broker.owntopics import is_own
from apps.engine.codec.layout import TRACE_TOPIC
from apps.engine.errors import UnknownQueue
from apps.engine.types import CatalogSnapshot
from tests.engine.broker.failurebench import FailureBench


def test_it_takes_messages_gives_them_back_and_stays_when_topics_are_published() -> None:
    bench = FailureBench()
    bench.put(b"{}", topic=TRACE_TOPIC, KEYS="a b")
    bench.broker.publish_catalog(CatalogSnapshot(version=1_000))

    assert is_own(TRACE_TOPIC)
    assert bench.bodies(TRACE_TOPIC) == [b"{}"]
    with pytest.raises(UnknownQueue):
        bench.put(b"{}", topic=TRACE_TOPIC, queue=1)
