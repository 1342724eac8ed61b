"""Every refusal has a code, and none tells what is the server's own; the protocol's file."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.access.gate import Denied
from apps.doors.grpc.calls import GrpcDoor, peer_of
from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.doors.grpc.statuses import CODES, code_of, status_of
from apps.doors.guard.clients import ClientLimits, ClientRates, TooMany
from apps.doors.http.refusals import Refusal
from apps.engine import errors
from apps.engine.testing.manualclock import ManualClock
from tests.doors.grpc.client import GrpcClient, a_message

ROOT = Path(__file__).resolve().parents[3]
PROTO = "apps/doors/grpc/protos/rocketmq.proto"


def kinds(kind: type[errors.EngineError]) -> Iterator[type[errors.EngineError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from kinds(below)


@pytest.mark.parametrize("kind", sorted(set(kinds(errors.EngineError)), key=lambda k: k.__name__))
def test_every_error_of_the_engine_has_a_code(kind: type[errors.EngineError]) -> None:
    code = code_of(kind)

    assert code in pb.Code.values()
    assert code not in (pb.OK, pb.CODE_UNSPECIFIED)
    # Who sends again what was refused for good is refused again.
    is_clients = pb.BAD_REQUEST <= code < pb.INTERNAL_ERROR and code != pb.TOO_MANY_REQUESTS
    assert not (kind.retriable and is_clients)
    assert issubclass(kind, errors.Refused) <= (is_clients or code == pb.UNSUPPORTED)


def test_every_row_of_the_table_is_an_error_of_the_engine() -> None:
    assert set(CODES) <= set(kinds(errors.EngineError))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TooMany("slow down", 10), pb.TOO_MANY_REQUESTS),
        (MemoryError(), pb.TOO_MANY_REQUESTS),
        (Refusal("overloaded", "too much"), pb.TOO_MANY_REQUESTS),
        (Denied("unauthenticated", "who?"), pb.UNAUTHORIZED),
        (Denied("forbidden", "no"), pb.FORBIDDEN),
        (Denied("database_unavailable", "later"), pb.HA_NOT_AVAILABLE),
    ],
)
def test_what_stands_around_the_engine_has_a_code(error: Exception, code: int) -> None:
    assert status_of(error, "r-1").code == code


@pytest.mark.parametrize(
    "error",
    [
        ValueError("/secret/path/store"),
        errors.StoreDamaged("/secret/path/store"),
        errors.WriteFailed("/secret/path/store"),
    ],
)
def test_what_the_server_is_to_blame_for_is_logged_and_not_told(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    status = status_of(error, "r-1")

    assert status.code == pb.INTERNAL_SERVER_ERROR
    assert "r-1" in status.message
    assert "secret" not in status.message
    assert "/secret/path/store" in caplog.text


async def test_a_mistake_of_ours_is_an_answer_with_the_requests_id(
    client: GrpcClient, door: GrpcDoor, caplog: pytest.LogCaptureFixture
) -> None:
    door.door.turns = None  # type: ignore[assignment]

    answer = await client.named("c", x_mq_request_id="my-request").send(a_message())

    assert answer.status.code == pb.INTERNAL_SERVER_ERROR
    assert "my-request" in answer.status.message
    assert "NoneType" in caplog.text
    assert "NoneType" not in answer.status.message


async def test_who_asks_too_much_is_told_so_in_the_answer(
    client: GrpcClient, door: GrpcDoor, clock: ManualClock
) -> None:
    door.client_limits = ClientLimits(ClientRates(requests_per_s=1), clock)

    codes = [(await client.send(a_message())).status.code for _ in range(2)]
    clock.advance(1_000)
    later = (await client.send(a_message())).status.code

    assert (codes, later) == ([pb.OK, pb.TOO_MANY_REQUESTS], pb.OK)


async def test_what_is_under_way_is_counted_and_let_go(client: GrpcClient, door: GrpcDoor) -> None:
    in_flight = door.door.in_flight
    in_flight.bytes_max = 1000

    large = await client.send(a_message(bytes(2000)))
    small = await client.send(a_message(bytes(100)))

    assert (large.status.code, small.status.code) == (pb.TOO_MANY_REQUESTS, pb.OK)
    assert in_flight.bytes == 0


@pytest.mark.parametrize(
    ("peer", "found"),
    [
        ("ipv4:10.0.0.1:5", ("10.0.0.1", 5)),
        ("ipv6:%5B::1%5D:5", ("::1", 5)),
        ("unix:/tmp/x", None),
        ("", None),
    ],
)
def test_a_peer_is_read(peer: str, found: tuple[str, int] | None) -> None:
    assert peer_of(peer) == found


@pytest.mark.parametrize("name", ["rocketmq_pb2.py", "rocketmq_pb2.pyi"])
def test_the_generated_code_is_that_of_the_file(tmp_path: Path, name: str) -> None:
    made = [sys.executable, "-m", "grpc_tools.protoc", "-I", ".", PROTO]
    subprocess.run(
        [*made, f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"], cwd=ROOT, check=True
    )

    kept = ROOT / Path(PROTO).parent / name
    assert (tmp_path / Path(PROTO).parent / name).read_text() == kept.read_text()


def test_the_protocol_names_its_licence() -> None:
    text = (ROOT / PROTO).read_text()

    assert "Apache License 2.0" in text
    assert "The Apache Software Foundation" in text
    assert "Apache License" in (ROOT / "docs/ROCKETMQ.md").read_text()
