"""Channels to the endpoints of a RocketMQ cluster, one each, and the calls made on them.

An endpoint learns who its client is by a stream of settings, and that it lives by heartbeats; both
are kept up by a thread an endpoint. Knows requests and answers; nothing of messages.
"""

import logging
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import grpc

from mqclient.clock import Clock
from mqclient.errors import ConnectFailed, MqError
from mqclient.rocketmq.address import PeerSettings, target_of
from mqclient.rocketmq.protos import rocketmq_pb2 as pb
from mqclient.rocketmq.signing import Caller
from mqclient.rocketmq.statuses import check, lost

logger = logging.getLogger("mqclient")

T = TypeVar("T")

SERVICE = "/apache.rocketmq.v2.MessagingService/"
_HEARTBEAT_S = 10.0
_AGAIN_S = 1.0
_FAREWELL_S = 2.0
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # A link that is cut without a word is found out within a minute.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 5_000),
)


class Link:
    """One endpoint: its channel, its stream of settings, its heartbeats."""

    def __init__(
        self,
        caller: Caller,
        target: str,
        hello: pb.Settings,
        *,
        on_lite_lost: Callable[[str], None] = lambda _name: None,
    ) -> None:
        """Begin to connect; `wait_until_known` returns when the other side knows the settings.

        `on_lite_lost` is told in another thread of a lite topic that is another client's now.
        """
        self._on_lite_lost = on_lite_lost
        self._caller = caller
        self._target = target
        self._hello = hello
        self._channel = _channel(caller.settings, target)
        self._is_known = threading.Event()
        self._is_over = threading.Event()
        self._answer: pb.Status | None = None
        self._broken = ""
        self._stream: Any = None  # grpc has no annotations to check.
        self._keeper = threading.Thread(target=self._keep, name="mqclient-rocketmq", daemon=True)
        self._keeper.start()
        self._heart = threading.Thread(target=self._beat, name="mqclient-heart", daemon=True)
        self._heart.start()

    def wait_until_known(self) -> None:
        """Return when the settings were answered; raise MqError when they are refused or lost."""
        if not self._is_known.wait(self._caller.settings.timeout_s):
            # Whatever was to be asked for was not: settings come before everything else.
            why = f": {self._broken}" if self._broken else ""
            raise ConnectFailed(f"{self._target} does not answer{why}")
        if self._answer is not None:
            check(self._answer, f"settings at {self._target}")

    def call(self, name: str, request: Any, answer: type[T], *, timeout_s: float = 0.0) -> T:
        """Make one request; raise MqError for a call without an answer, not for its status."""
        method = self._channel.unary_unary(
            SERVICE + name,
            request_serializer=_bytes_of,
            response_deserializer=answer.FromString,  # type: ignore[attr-defined]
        )
        with self._told_of_losses(name):
            found: T = method(
                request,
                timeout=timeout_s or self._caller.settings.timeout_s,
                metadata=self._caller.headers(),
            )
        return found

    def frames(self, name: str, request: Any, answer: type[T], *, timeout_s: float) -> Iterator[T]:
        """Yield the answers of one request; raise MqError for a stream that breaks."""
        method = self._channel.unary_stream(
            SERVICE + name,
            request_serializer=_bytes_of,
            response_deserializer=answer.FromString,  # type: ignore[attr-defined]
        )
        with self._told_of_losses(name):
            yield from method(request, timeout=timeout_s, metadata=self._caller.headers())

    @contextmanager
    def _told_of_losses(self, name: str) -> Iterator[None]:
        """Have a call that is lost raise MqError, also where the link was closed meanwhile."""
        try:
            yield
        except grpc.RpcError as error:
            raise lost(error, f"{name} at {self._target}") from error
        except ValueError as error:
            # What grpc says of a channel that was closed in between.
            if not self._is_over.is_set():
                raise
            raise ConnectFailed(f"{name} at {self._target}: the link is closed") from error

    def close(self) -> None:
        """Take leave, as far as that takes no time, and end."""
        self._is_over.set()
        group = self._hello.subscription.group
        request = pb.NotifyClientTerminationRequest(group=group if group.name else None)
        try:
            self.call(
                "NotifyClientTermination",
                request,
                pb.NotifyClientTerminationResponse,
                timeout_s=_FAREWELL_S,
            )
        except MqError as error:
            # It finds out by itself, a little later.
            logger.debug("no leave taken of %s: %s", self._target, error)
        if self._stream is not None:
            self._stream.cancel()
        self._channel.close()
        self._keeper.join()
        self._heart.join()

    def _keep(self) -> None:
        while not self._is_over.is_set():
            try:
                self._listen()
            except grpc.RpcError as error:
                self._broken = error.details() or error.code().name
            except ValueError:
                # What grpc says of a channel that was closed in between.
                if not self._is_over.is_set():
                    raise
            self._is_over.wait(_AGAIN_S)

    def _listen(self) -> None:
        """Say who this is, and read what the other side has to say until the stream ends."""
        words: queue.SimpleQueue[pb.TelemetryCommand | None] = queue.SimpleQueue()
        words.put(pb.TelemetryCommand(settings=self._hello))
        method = self._channel.stream_stream(
            SERVICE + "Telemetry",
            request_serializer=_bytes_of,
            response_deserializer=pb.TelemetryCommand.FromString,
        )
        self._stream = method(iter(words.get, None), metadata=self._caller.headers())
        try:
            for command in self._stream:
                kind = command.WhichOneof("command")
                if kind == "settings":
                    self._answer = command.status
                    self._is_known.set()
                elif kind == "notify_unsubscribe_lite_command":
                    self._on_lite_lost(command.notify_unsubscribe_lite_command.lite_topic)
        finally:
            words.put(None)

    def _beat(self) -> None:
        group = self._hello.subscription.group
        request = pb.HeartbeatRequest(
            group=group if group.name else None, client_type=self._hello.client_type
        )
        while not self._is_over.wait(_HEARTBEAT_S):
            try:
                answer = self.call("Heartbeat", request, pb.HeartbeatResponse)
                check(answer.status, f"Heartbeat at {self._target}")
            except MqError as error:
                # What is asked for next says it louder.
                logger.debug("%s", error)


class Links:
    """One link to each endpoint of a cluster, made when it is first wanted."""

    def __init__(
        self,
        settings: PeerSettings,
        hello: pb.Settings,
        *,
        clock: Clock,
        on_lite_lost: Callable[[str], None] = lambda _name: None,
    ) -> None:
        """Connect nowhere yet; see Link for `on_lite_lost`."""
        self._on_lite_lost = on_lite_lost
        self._caller = Caller(settings=settings, clock=clock)
        self._hello = hello
        self._links: dict[str, Link] = {}
        self._lock = threading.Lock()

    def to(self, endpoints: pb.Endpoints) -> Link:
        """Return the link to an endpoint that knows this client; raise MqError."""
        target = target_of(endpoints)
        with self._lock:
            link = self._links.get(target)
            if link is None:
                link = self._links[target] = Link(
                    self._caller, target, self._hello, on_lite_lost=self._on_lite_lost
                )
        link.wait_until_known()
        return link

    def close(self) -> None:
        """Close all links."""
        with self._lock:
            links, self._links = list(self._links.values()), {}
        for link in links:
            link.close()


def _channel(settings: PeerSettings, target: str) -> Any:
    if not settings.is_tls:
        return grpc.insecure_channel(target, options=_OPTIONS)
    trusted = None if settings.ca_file is None else settings.ca_file.read_bytes()
    credentials = grpc.ssl_channel_credentials(root_certificates=trusted)
    return grpc.secure_channel(target, credentials, options=_OPTIONS)


def _bytes_of(message: Any) -> bytes:
    encoded: bytes = message.SerializeToString()
    return encoded
