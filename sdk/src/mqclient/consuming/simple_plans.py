"""What a simple consumer does, as plans. Knows no sockets, threads or loops."""

from collections.abc import Callable, Iterable, Sequence

from mqclient.consuming.handles import Run, check_settled, runs_of, take_new_handles
from mqclient.consuming.interceptors import tell_received
from mqclient.consuming.openwork import OpenWork
from mqclient.consuming.settings import SimpleConsumerSettings
from mqclient.consuming.subscriptions import tags_of
from mqclient.consuming.traces import Ended
from mqclient.errors import InvalidArgument
from mqclient.limits import HANDLES_MAX
from mqclient.protocol.calls import Call, Calls
from mqclient.protocol.plans import Patience, Plan, persistently
from mqclient.values import Filter, Settled, Settlement
from mqclient.wire.records import RETRY_PREFIX, Message


class SimplePlans:
    """Receives and settles for one group."""

    def __init__(
        self,
        settings: SimpleConsumerSettings,
        calls: Calls,
        patience: Patience,
        work: OpenWork | None = None,
    ) -> None:
        """Bind to a group; `work` is told what its code has, and how that ends."""
        self.settings = settings
        self._work = work
        self._calls = calls
        self._patience = patience

    def receive(
        self,
        *,
        messages_max: int | None = None,
        wait_ms: int | None = None,
        invisible_ms: int | None = None,
        filter_text: Filter | None = None,
    ) -> Plan[list[Message]]:
        """Take messages; what is not said here is said by the settings."""
        settings = self.settings
        text = settings.filter_text if filter_text is None else filter_text
        tags = tags_of(text)
        call = self._calls.receive(
            settings.group,
            settings.topics,
            messages_max=settings.messages_max if messages_max is None else messages_max,
            wait_ms=settings.wait_ms if wait_ms is None else wait_ms,
            invisible_ms=settings.invisible_ms if invisible_ms is None else invisible_ms,
            wanted=text,
            client_id=settings.client_id,
            ordered=settings.ordered,
            high_queue_first=settings.high_queue_first,
        )
        received = yield from persistently(call, self._patience)
        wanted: list[Message] = []
        unwanted: list[Message] = []
        for message in received.messages:
            # What comes again was wanted when it came first.
            is_again = message.stored_topic.startswith(RETRY_PREFIX)
            is_wanted = tags is None or is_again or message.tag in tags
            (wanted if is_wanted else unwanted).append(message)
        if unwanted:
            # Their tags share a hash with a wanted one. Unsettled, they would come again and again.
            yield from self.ack(unwanted)
        tell_received(settings.interceptors, wanted)
        return wanted

    def given(self, messages: Iterable[Message], invisible_ms: int | None = None) -> None:
        """Take that the code has messages from here on."""
        if self._work is not None:
            self._work.given(messages, invisible_ms or self.settings.invisible_ms)

    def ack(self, messages: Message | Iterable[Message]) -> Plan[None]:
        """Settle messages for good."""
        group = self.settings.group
        yield from self._settle(
            messages, "ack", Ended.OK, lambda handles: self._calls.ack(group, handles)
        )

    def nack(
        self,
        messages: Message | Iterable[Message],
        *,
        delay_ms: int | None,
        delay_level: int | None = None,
        reason: str,
    ) -> Plan[None]:
        """Give messages back; without a delay the group's policy says when they come again."""
        if delay_ms is not None and delay_level is not None:
            raise InvalidArgument("a message comes again after delay_ms or that of delay_level")
        yield from self._settle(
            messages,
            "nack",
            Ended.ERROR if delay_level is not None and delay_level < 0 else Ended.LATER,
            lambda handles: self._calls.nack(
                self.settings.group,
                handles,
                delay_ms=delay_ms,
                delay_level=delay_level,
                reason=reason,
            ),
        )

    def extend(self, messages: Message | Iterable[Message], *, invisible_ms: int) -> Plan[None]:
        """Keep messages for longer; they get new handles."""
        yield from self._settle(
            messages,
            "extend",
            invisible_ms,
            lambda handles: self._calls.extend(
                self.settings.group, handles, invisible_ms=invisible_ms
            ),
        )

    def _settle(
        self,
        messages: Message | Iterable[Message],
        verb: str,
        end: Ended | int,
        call: Callable[[Sequence[str]], Call[list[Settlement]]],
    ) -> Plan[None]:
        runs = runs_of(messages)
        results: list[Settlement] = []
        answered: list[Run] = []
        for start in range(0, len(runs), HANDLES_MAX):
            part = runs[start : start + HANDLES_MAX]
            items = yield from persistently(call([run.handle for run in part]), self._patience)
            take_new_handles(part, items)
            self._trace(part, items, end)
            results += [Settlement(index=start + item.index, status=item.status) for item in items]
            answered += part
        check_settled(answered, results, verb)

    def _trace(self, runs: Sequence[Run], items: Sequence[Settlement], end: Ended | int) -> None:
        """Tell what became of messages: how they ended, or for how long they are kept."""
        if self._work is None:
            return
        for item in items:
            run = runs[item.index]
            if item.status is not Settled.OK:
                self._work.settled(run.messages, Ended.TIMEOUT)
            elif isinstance(end, Ended):
                self._work.settled(run.messages, end)
            else:
                self._work.extended(run.messages, end)
