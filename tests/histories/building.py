"""Write tiny histories by hand: one group that reads one topic in order. Times are milliseconds.

Knows what lines look like; nothing is checked here, for what is written is wrong on purpose.
"""

from collections import Counter
from typing import Any, Self

from tests.histories.events import Event, Kind, Verb
from tests.histories.faults import CUT, KILL
from tests.histories.history import History, of_events

TOPIC = "orders"
GROUP = "fulfil"
MS_NS = 1_000_000
LEASE_MS = 1_000


class Story:
    """Events of a run, added in any order; each method returns the story."""

    def __init__(self, *, is_ordered: bool = True, tags: list[str] | None = None) -> None:
        """Begin with a broker that runs and a group that subscribed."""
        self._events: list[Event] = []
        self._numbers: Counter[str] = Counter()
        self.notice(0, Verb.PROCESS, target="broker", state="started", role="broker")
        self.subscribe(0, tags=tags, is_ordered=is_ordered)

    def history(self) -> History:
        """Return what a checker reads."""
        return of_events(self._events)

    def operate(
        self,
        process: str,
        verb: Verb,
        times_ms: tuple[float, float | None],
        asked: dict[str, Any],
        kind: Kind = Kind.OK,
        **told: Any,
    ) -> Self:
        """Add an operation; without an end it has no completion."""
        start_ms, end_ms = times_ms
        self._numbers[process] += 1
        number = self._numbers[process]
        self._add(process, number, Kind.INVOKE, verb, start_ms, asked)
        if end_ms is not None:
            self._add(process, number, kind, verb, end_ms, told)
        return self

    def notice(self, at_ms: float, verb: Verb, process: str = "run", **values: Any) -> Self:
        """Add something that happened at one moment."""
        self._numbers[process] += 1
        self._add(process, self._numbers[process], Kind.INFO, verb, at_ms, values)
        return self

    def subscribe(
        self, at_ms: float, *, tags: list[str] | None = None, is_ordered: bool = True
    ) -> Self:
        """Say what the group wants."""
        return self.notice(
            at_ms, Verb.SUBSCRIBE, group=GROUP, topic=TOPIC, ordered=is_ordered, tags=tags
        )

    def send(
        self,
        *ids: str,
        at_ms: float = 1,
        took_ms: float = 1,
        offset: int = 0,
        queue: int = 0,
        key: str | None = "k",
        tag: str | None = None,
        kind: Kind = Kind.OK,
    ) -> Self:
        """Send messages in one operation; they lie at `offset` and behind it."""
        messages = [[id_, key, tag, f"digest of {id_}"] for id_ in ids]
        asked = {"producer": "p", "topic": TOPIC, "messages": messages}
        places = [[queue, offset + index] for index in range(len(ids))]
        told = {"places": places} if kind is Kind.OK else {"code": "unanswered"}
        return self.operate("p", Verb.SEND, (at_ms, at_ms + took_ms), asked, kind, **told)

    def deliver(
        self,
        *messages: tuple[str, int],
        at_ms: float,
        took_ms: float | None = 1,
        client: str = "a",
        queue: int = 0,
        done: int | None = None,
        digest: str | None = None,
    ) -> Self:
        """Run a listener with messages of these ids and offsets; None took no end."""
        given = [[id_, offset, digest or f"digest of {id_}"] for id_, offset in messages]
        asked = {"group": GROUP, "client": client, "topic": TOPIC, "queue": queue}
        end_ms = None if took_ms is None else at_ms + took_ms
        done = len(messages) if done is None else done
        return self.operate(
            client, Verb.DELIVER, (at_ms, end_ms), {**asked, "messages": given}, done=done
        )

    def lock(
        self,
        epoch: int,
        *,
        at_ms: float,
        took_ms: float = 1,
        client: str = "a",
        queue: int = 0,
        lease_ms: int = LEASE_MS,
    ) -> Self:
        """Take or renew a lock."""
        asked = {"group": GROUP, "client": client, "queues": [[TOPIC, queue]]}
        locked = [[TOPIC, queue, epoch, lease_ms]]
        times_ms = (at_ms, at_ms + took_ms)
        return self.operate(client, Verb.LOCK, times_ms, asked, locked=locked, refused=[])

    def unlock(self, *, at_ms: float, client: str = "a", queue: int = 0) -> Self:
        """Give a lock back."""
        asked = {"group": GROUP, "client": client, "queues": [[TOPIC, queue]]}
        return self.operate(client, Verb.UNLOCK, (at_ms, at_ms + 1), asked)

    def commit(
        self,
        offset: int,
        *,
        at_ms: float,
        epoch: int | None = 1,
        client: str = "a",
        queue: int = 0,
        code: str = "",
    ) -> Self:
        """Commit an offset; a code refuses it."""
        asked = {"group": GROUP, "client": client, "offsets": [[TOPIC, queue, offset, epoch]]}
        times_ms = (at_ms, at_ms + 1)
        if code:
            return self.operate(client, Verb.COMMIT, times_ms, asked, Kind.FAIL, code=code)
        return self.operate(client, Verb.COMMIT, times_ms, asked)

    def progress(self, committed: int, end: int, *, at_ms: float, queue: int = 0) -> Self:
        """Read how far the group is."""
        offsets = [[TOPIC, queue, committed, end]]
        times_ms = (at_ms, at_ms + 1)
        return self.operate("run", Verb.PROGRESS, times_ms, {"group": GROUP}, offsets=offsets)

    def inspect(
        self,
        *ids: str,
        at_ms: float,
        end: int | None = None,
        epochs: tuple[int, ...] = (1,),
        faults: tuple[str, ...] = (),
    ) -> Self:
        """Find messages of these ids in the store's first queue, from offset 0 on."""
        records = [
            [TOPIC, 0, offset, id_, f"digest of {id_}"] for offset, id_ in enumerate(ids) if id_
        ]
        return self.operate(
            "run",
            Verb.INSPECT,
            (at_ms, at_ms + 1),
            {"topics": [TOPIC]},
            queues=[[TOPIC, 0, 0, len(ids) if end is None else end]],
            records=records,
            epochs=list(epochs),
            faults=list(faults),
        )

    def assign(self, *queues: int, at_ms: float, client: str = "a", generation: int = 1) -> Self:
        """Tell a client its queues."""
        return self.notice(
            at_ms,
            Verb.ASSIGN,
            client,
            group=GROUP,
            client=client,
            generation=generation,
            queues=[[TOPIC, queue] for queue in queues],
        )

    def fault(self, fault: str, target: str, *, at_ms: float) -> Self:
        """Disturb a process; a kill or a power cut ends it at once."""
        self.notice(at_ms, Verb.NEMESIS, fault=fault, target=target)
        if fault in (KILL, CUT):
            role = "broker" if target == "broker" else "client"
            self.notice(at_ms, Verb.PROCESS, target=target, state="ended", role=role)
        return self

    def heal(self, *, at_ms: float) -> Self:
        """Say that the faults are over."""
        return self.fault("heal", "", at_ms=at_ms)

    def start_broker(self, *, at_ms: float) -> Self:
        """Start the broker again."""
        return self.notice(at_ms, Verb.PROCESS, target="broker", state="started", role="broker")

    def _add(
        self,
        process: str,
        number: int,
        kind: Kind,
        verb: Verb,
        at_ms: float,
        values: dict[str, Any],
    ) -> None:
        at_ns = int(at_ms * MS_NS)
        self._events.append(Event(process, number, kind, verb, at_ns, at_ns, values))
