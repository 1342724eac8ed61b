"""The door's code of the protocol and the library's are made of one file."""

import re
from pathlib import Path

from mqclient.rocketmq.protos import rocketmq_pb2 as library

from apps.doors.grpc.protos import rocketmq_pb2 as door

ROOT = Path(__file__).parents[3]
HERE = "apps/doors/grpc/protos"
THERE = "sdk/src/mqclient/rocketmq/protos"


def test_both_describe_the_same_protocol() -> None:
    described = library.DESCRIPTOR.serialized_pb

    assert described == door.DESCRIPTOR.serialized_pb
    assert len(library.DESCRIPTOR.message_types_by_name) > 50


def test_both_are_made_by_the_same_tool_byte_for_byte() -> None:
    for name in ("rocketmq_pb2.py", "rocketmq_pb2.pyi"):
        assert (ROOT / THERE / name).read_bytes() == (ROOT / HERE / name).read_bytes()


def test_the_library_needs_nothing_of_the_protocol_before_it_is_wanted() -> None:
    package = ROOT / "sdk/src/mqclient"
    wants = re.compile(
        r"^(?:from|import) (?:grpc|google\.|mqclient\.(?:rocketmq|mirroring\.\w+ward))"
    )
    eager = [
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if any(wants.match(line) for line in path.read_text().splitlines())
    ]

    outside = [path for path in eager if not path.startswith(("rocketmq/", "mirroring/"))]
    assert outside == []
