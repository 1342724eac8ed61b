"""What idle clients of the gRPC door cost in memory, and give back: `python -m benchmarks.streams`.

Each client has a connection and a telemetry stream of its own and does nothing. All come and all
leave, several times in turns: what is lost grows with every turn, what is kept for the next one
does not. Memory is not time, so a busy machine measures the same.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

import grpc
import psutil

from apps.doors.grpc.protos import rocketmq_pb2 as pb
from benchmarks.servers import HOST, Server, free_port

_MANAGE = Path(__file__).resolve().parent.parent / "manage.py"
_TELEMETRY = "/apache.rocketmq.v2.MessagingService/Telemetry"
_SETTINGS = pb.TelemetryCommand(
    settings=pb.Settings(
        client_type=pb.PRODUCER, publishing=pb.Publishing(topics=[pb.Resource(name="orders")])
    )
)
# A channel each: others would share one connection.
_OPTIONS = (("grpc.use_local_subchannel_pool", 1),)
_MIB = 1024 * 1024


def main() -> None:
    """Measure in turns, and print private memory with and without the streams."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streams", description=__doc__)
    parser.add_argument("--streams", type=int, default=2_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rest-s", type=float, default=5.0, help="after all have left")
    parser.add_argument("--directory", type=Path, help="where the store is made")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mqweb-bench-", dir=chosen.directory) as name:
        directory = Path(name)
        directory.chmod(0o755)
        port, grpc_port = free_port(), free_port()
        command = [sys.executable, str(_MANAGE), "runmq", "--data", str(directory / "data")]
        command += ["--port", str(port), "--grpc-port", str(grpc_port)]
        server = Server([*command, "--worker-processes", "0"], directory=directory)
        try:
            server.wait_for(grpc_port)
            process = _broker_of(server)
            print(f"before the first: {_private_mib(process):.0f} MB", flush=True)
            for turn in range(chosen.turns):
                asyncio.run(_turn(turn, chosen, grpc_port, process))
        finally:
            server.stop()


def _broker_of(server: Server) -> psutil.Process:
    """Return the process that has the door; its supervisor is another."""
    for child in psutil.Process(server.pid).children(recursive=True):
        if "broker" in child.cmdline():
            return child
    raise SystemExit("there is no broker")


async def _turn(turn: int, chosen: argparse.Namespace, port: int, process: psutil.Process) -> None:
    channels, calls = [], []
    for number in range(chosen.streams):
        channel = grpc.aio.insecure_channel(f"{HOST}:{port}", options=_OPTIONS)
        stream = channel.stream_stream(
            _TELEMETRY,
            request_serializer=pb.TelemetryCommand.SerializeToString,
            response_deserializer=pb.TelemetryCommand.FromString,
        )
        call = stream(metadata=(("x-mq-client-id", f"idle@{number}"),))
        await call.write(_SETTINGS)
        await call.read()
        channels.append(channel)
        calls.append(call)
    opened = _private_mib(process)
    for call in calls:
        call.cancel()
    for channel in channels:
        await channel.close()
    await asyncio.sleep(chosen.rest_s)
    left = _private_mib(process)
    print(
        f"turn {turn + 1}: {opened:.0f} MB with {chosen.streams} streams, {left:.0f} MB after",
        flush=True,
    )


def _private_mib(process: psutil.Process) -> float:
    private: int = process.memory_full_info().uss
    return private / _MIB


if __name__ == "__main__":
    main()
