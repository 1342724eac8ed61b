"""A link to an endpoint of RocketMQ's protocol that nobody answers at, and that is closed."""

import socket
from collections.abc import Iterator

import pytest
from mqclient.clock import SystemClock
from mqclient.errors import ConnectFailed, ConnectionLost
from mqclient.rocketmq.address import PeerSettings
from mqclient.rocketmq.connections import Link
from mqclient.rocketmq.protos import rocketmq_pb2 as pb
from mqclient.rocketmq.signing import Caller


@pytest.fixture
def link() -> Iterator[Link]:
    with socket.socket() as taken:
        # Bound and never listened at: whoever connects is refused.
        taken.bind(("127.0.0.1", 0))
        settings = PeerSettings(host="127.0.0.1", port=taken.getsockname()[1])
        caller = Caller(settings=settings, clock=SystemClock())
        found = Link(caller, f"{settings.host}:{settings.port}", pb.Settings())
        yield found
        found.close()


def beat(link: Link) -> None:
    link.call("Heartbeat", pb.HeartbeatRequest(), pb.HeartbeatResponse)


def test_a_call_that_nobody_answers_is_lost(link: Link) -> None:
    with pytest.raises(ConnectionLost):
        beat(link)


def test_a_call_behind_the_end_of_a_link_is_lost_as_well(link: Link) -> None:
    """As a heartbeat of another thread that was about to be sent."""
    link.close()

    with pytest.raises(ConnectFailed, match="the link is closed"):
        beat(link)
