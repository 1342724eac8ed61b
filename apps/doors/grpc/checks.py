"""Orphaned transactions: their producers are asked, each by the stream it can be reached by.

Knows sessions and what is pending; decides nothing. For a topic there is a task while a transaction
of it is pending and somebody can be asked, and none otherwise.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator

import grpc

from apps.access.gate import Denied, Rights
from apps.access.policy import Action, topic
from apps.doors.grpc import messages
from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.doors.grpc.sessions import Session, Sessions
from apps.doors.http.calls import settled
from apps.doors.http.messages import records_of
from apps.engine.api import EngineAPI
from apps.engine.codec.checksum import crc32
from apps.engine.codec.properties import PRODUCER_CLIENT
from apps.engine.codec.record import Record
from apps.engine.errors import EngineError
from apps.engine.limits import NAME_CHARACTERS_MAX, WAIT_MS_MAX
from apps.engine.transactiontypes import Check

_log = logging.getLogger("mqweb.grpc")

_PREFIX = "grpc|"
# Whom the engine is told that it was handed checks to; who is asked is decided by each of them.
CLIENT_ID = "grpc-door"
_CHECKS_MAX = 32
# A client that does not read its stream is not waited for.
_WRITE_S = 5.0
_PENDING_MAX = 100


def producer_group_of(topic_name: str) -> str:
    """Return the group of producers that is asked about transactions of a topic.

    The protocol has none: whoever sends to a topic may be asked about its transactions.
    """
    name = _PREFIX + topic_name
    if len(name) <= NAME_CHARACTERS_MAX:
        return name
    return f"{name[: NAME_CHARACTERS_MAX - 9]}-{crc32(topic_name.encode()):08x}"


class CheckBacks:
    """Asks producers about transactions that nobody has decided."""

    def __init__(self, engine_of: Callable[[], EngineAPI | None], sessions: Sessions) -> None:
        """Ask nobody yet."""
        self._engine_of = engine_of
        self._sessions = sessions
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._look: asyncio.Task[None] | None = None
        # Which topics were mentioned since their task last looked whether anything is pending.
        self._mentioned: set[str] = set()

    def __len__(self) -> int:
        """Return how many topics have a task."""
        return len(self._tasks)

    def mention(self, topic_name: str) -> None:
        """Look after a topic: a transaction of it was begun, or a producer of it has come."""
        self._mentioned.add(topic_name)
        if topic_name not in self._tasks:
            self._tasks[topic_name] = asyncio.create_task(self._run(topic_name))

    def look(self) -> None:
        """Look after what is pending: a client has come that may not say what it sends to.

        After a restart some send their settings minutes after they have opened their stream.
        """
        if self._look is None:
            self._look = asyncio.create_task(self._mention_pending())

    async def _mention_pending(self) -> None:
        try:
            await self._mention_all()
        except EngineError as error:
            _log.warning("grpc_checks_ended", extra={"topic": "", "code": error.code})
        finally:
            self._look = None

    async def _mention_all(self) -> None:
        engine = self._engine_of()
        if engine is None or not engine.transaction_status().pending:
            return
        for pending in await settled(engine.transactions(messages_max=_PENDING_MAX)):
            if pending.producer_group.startswith(_PREFIX) and pending.topic:
                self.mention(pending.topic)

    async def stop(self) -> None:
        """Ask nobody any more."""
        tasks = [*self._tasks.values(), *([self._look] if self._look else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()

    async def _run(self, topic_name: str) -> None:
        group = producer_group_of(topic_name)
        try:
            while True:
                self._mentioned.discard(topic_name)
                engine = self._engine_of()
                if engine is None:
                    return
                pending = await settled(engine.transactions(producer_group=group, messages_max=1))
                if topic_name in self._mentioned:
                    continue
                if not pending or not any(self._askable(topic_name)):
                    return
                found = await engine.receive_checks(
                    group, client_id=CLIENT_ID, checks_max=_CHECKS_MAX, wait_ms=WAIT_MS_MAX
                )
                for check in found:
                    await self._ask(topic_name, check)
        except EngineError as error:
            # What is pending stays so, and is asked about when its topic is mentioned again.
            _log.warning("grpc_checks_ended", extra={"topic": topic_name, "code": error.code})
        finally:
            if self._tasks.get(topic_name) is asyncio.current_task():
                del self._tasks[topic_name]

    def _askable(self, topic_name: str) -> Iterator[Session]:
        """Yield who has a stream and sends to the topic, or has not said yet what it does."""
        for session in self._sessions:
            is_silent = session.settings is None
            if session.streams and (topic_name in session.topics or is_silent):
                yield session

    async def _ask(self, topic_name: str, check: Check) -> None:
        """Send a check to who sent the message; where that is gone, to another of its producers."""
        (record,) = records_of(check.block)
        for session in self._in_turn(topic_name, record, check.number):
            command = pb.TelemetryCommand(
                recover_orphaned_transaction_command=pb.RecoverOrphanedTransactionCommand(
                    message=messages.message_of(record, session.namespace),
                    transaction_id=check.transaction_id,
                )
            )
            if not session.streams:
                continue
            # A stream that breaks as it is written to, or that nobody reads: the next one is tried.
            with contextlib.suppress(grpc.aio.BaseError, asyncio.InvalidStateError, TimeoutError):
                async with asyncio.timeout(_WRITE_S):
                    await session.streams[-1].send(command)
                return

    def _in_turn(self, topic_name: str, record: Record, number: int) -> list[Session]:
        sender = record.properties.get(PRODUCER_CLIENT, "")
        found = [one for one in self._askable(topic_name) if _may_decide(one, topic_name)]
        first = [one for one in found if one.client_id == sender]
        others = [one for one in found if one.client_id != sender and topic_name in one.topics]
        # The next check asks somebody else, should this one not answer.
        turn = number % len(others) if others else 0
        return [*first, *others[turn:], *others[:turn]]


def _may_decide(session: Session, topic_name: str) -> bool:
    """Say whether a client may know of the topic's messages, and end its transactions."""
    if not isinstance(session.rights, Rights):
        return True
    try:
        session.rights.check(topic(topic_name), Action.PUB, Action.DECIDE)
    except Denied:
        return False
    return True
