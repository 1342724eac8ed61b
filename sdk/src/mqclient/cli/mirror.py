"""`mq mirror`: a topic to or from a RocketMQ 5 endpoint. Knows the mirrors, signals and progress.

Of the RocketMQ side nothing is imported before it is wanted: grpcio is an extra of this library.
"""

import argparse
import os
import signal
import sys
import threading
from importlib.util import find_spec
from types import FrameType
from typing import TYPE_CHECKING

from mqclient.cli.progress import Progress
from mqclient.errors import InvalidArgument, MqError, Unsupported
from mqclient.mirroring.settings import MirrorSettings
from mqclient.names import lite_parts

if TYPE_CHECKING:
    from mqclient.mirroring.mirror import Mirror

_ACCESS_KEY, _SECRET = "ROCKETMQ_ACCESS_KEY", "ROCKETMQ_SECRET_KEY"  # Names of variables.


def outward(arguments: argparse.Namespace) -> None:
    """Copy a topic of this broker's to an endpoint."""
    _needs_grpc()
    from mqclient.mirroring.outward import OutwardMirror

    _run(OutwardMirror, arguments, arguments.to)


def inward(arguments: argparse.Namespace) -> None:
    """Copy a topic of an endpoint's to this broker."""
    _needs_grpc()
    if arguments.start is not None and not (arguments.lite or arguments.lite_file):
        raise InvalidArgument(
            "--start goes with --lite: where else a group begins is decided there"
        )
    from mqclient.mirroring.inward import InwardMirror

    _run(InwardMirror, arguments, arguments.source)


def _run(kind: "type[Mirror]", arguments: argparse.Namespace, endpoint: str) -> None:
    from mqclient.rocketmq.address import PeerSettings, host_and_port

    told = _Told()
    host, port = host_and_port(endpoint)
    peer = PeerSettings(
        host=host,
        port=port,
        is_tls=arguments.tls or arguments.ca is not None,
        ca_file=arguments.ca,
        namespace=arguments.namespace,
        access_key=os.environ.get(_ACCESS_KEY),
        secret=os.environ.get(_SECRET),
    )
    settings = MirrorSettings(
        topic=arguments.topic,
        # A lite topic is its parent's there, by its name.
        topic_there=arguments.topic_there or (lite_parts(arguments.topic) or (arguments.topic,))[0],
        group=arguments.group or f"mirror-{arguments.topic}",
        lites=_lites_of(arguments),
        start=arguments.start,
        once=arguments.once,
        lease_s=getattr(arguments, "lease", 30.0),
        in_flight=arguments.in_flight,
        rate=arguments.rate,
        patience_s=arguments.patience,
        on_copied=told.copied,
        on_refused=told.refused if arguments.skip_refused else None,
    )
    mirror = kind(settings, peer, arguments.server, token=arguments.token)
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        mirror.run()
    finally:
        signal.signal(signal.SIGTERM, before)
        told.finish(mirror.pace.repeats)


def _lites_of(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Return the names of lite topics that are said and that stand in the file, a line each."""
    listed = [] if arguments.lite_file is None else arguments.lite_file.read_text().split()
    if arguments.lite_file is not None and not listed:
        raise InvalidArgument(f"{arguments.lite_file} names no lite topic")
    return (*arguments.lite, *listed)


class _Told:
    """Counts what was copied and passed over, and says so."""

    def __init__(self) -> None:
        self._progress = Progress("mirrored")
        self._refused = 0
        self._lock = threading.Lock()

    def copied(self, messages: int, size_bytes: int) -> None:
        """Count a batch; those of it that were passed over are no copies."""
        with self._lock:
            passed_over, self._refused = self._refused, 0
        self._progress.bytes += size_bytes
        self._progress.step(messages - passed_over)

    def refused(self, which: str, error: MqError) -> None:
        """Say which message is passed over."""
        with self._lock:
            self._refused += 1
            sys.stderr.write(f"mq: passed over {which}: {error} [{error.problem_code}]\n")

    def finish(self, repeats: int) -> None:
        """Say the total."""
        self._progress.finish()
        if repeats:
            sys.stderr.write(f"up to {repeats} of them are there twice, under the same id\n")


def _needs_grpc() -> None:
    if any(find_spec(name) is None for name in ("grpc", "google")):
        raise Unsupported("a mirror needs grpcio: install mqclient[rocketmq]")
    if (os.environ.get(_ACCESS_KEY) is None) != (os.environ.get(_SECRET) is None):
        raise InvalidArgument(f"{_ACCESS_KEY} and {_SECRET} go together")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    # The same end as Ctrl-C: what is under way is left, and copied by the next run.
    raise KeyboardInterrupt
