"""A run: a product, clients in threads around it, and what both did, written down.

Which product it is and how it is disturbed is said by `brokers` and `products`. Knows files, the
HTTP contract and how the clockwork asks; `tests.histories` judges.
"""

import random
import shlex
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

from apps.bridge.remote import RemoteEngine
from apps.engine.errors import EngineError
from tests.histories.events import Verb
from tests.histories.history import History, read
from tests.histories.recorder import Recorder
from tests.outcomes.calls import Reply, Teller, digest_of, id_of
from tests.process import inspection

# Generous: a machine under load is slow, and only a hang must fail.
DEADLINE_S = 180.0
_LOOK_S = 0.02

LATER, PAID, JOBS, NUMBERED = "later", "paid", "jobs", "numbered"
TOPICS = (LATER, PAID, JOBS, NUMBERED)
READERS = {LATER: "late", PAID: "books", NUMBERED: "counters"}
"""Which group reads a topic and is content with everything."""
LEASED, SENT_BACK = "leased", "sentback"
"""The groups that read JOBS and fail: with leases, and by sending back."""
FAILURES_MAX = 2
RETRY_DELAYS_MS = (50, 150)
PRODUCERS = "payers"
CHECKS_MAX = 3
VARIABLES = {
    "MQWEB_DELAY_LEVELS": "1s 2s",
    "MQWEB_TRANSACTION_IMMUNITY_MS": "300",
    "MQWEB_TRANSACTION_CHECK_MS": "400",
    "MQWEB_TRANSACTION_CHECKS_MAX": str(CHECKS_MAX),
}
"""Short times, in the same proportion as the defaults."""


def wait_for(is_there: Callable[[], object], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Return when something is true; fail when that takes too long."""
    until_s = time.monotonic() + deadline_s
    while not is_there():
        assert time.monotonic() < until_s, f"in {deadline_s:.0f} s it did not happen that {what}"
        time.sleep(_LOOK_S)


class Field:
    """One run in one directory. Use it as a context: at its end no client is left."""

    def __init__(self, directory: Path, seed: int) -> None:
        """Begin to write things down; nothing runs yet."""
        self.directory = directory
        self.rng = random.Random(seed)
        self.seed = seed
        self.is_over = threading.Event()
        """Clients that make something new end when this is set."""
        self.is_drained = threading.Event()
        """Clients that only do what is left end when this is set."""
        self.turns: Counter[str] = Counter()
        """How often each client that makes something new has begun."""
        self._recorder = Recorder(directory / "run.jsonl", "run")
        self._recorders = [self._recorder]
        self._threads: list[threading.Thread] = []
        self._errors: list[BaseException] = []

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.end()
            raise
        for topic, group in READERS.items():
            self._subscribe(group, topic)
        for group in (LEASED, SENT_BACK):
            self._subscribe(group, JOBS)
            self.notice(Verb.POLICY, group=group, failures_max=FAILURES_MAX)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.is_over.set()
        self.is_drained.set()
        for thread in self._threads:
            thread.join(DEADLINE_S)
        self.engine.close()
        self.end()
        for recorder in self._recorders:
            recorder.close()
        if error is not None:
            judge = f"{sys.executable} -m tests.outcomes.judging {shlex.quote(str(self.directory))}"
            print(f"seed {self.seed}; histories are kept; to judge them again: {judge}")

    # What a kind of product says.

    def start(self) -> None:
        """Start the product, with its topics and groups."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop the product in order, and assert that it does."""
        raise NotImplementedError

    @property
    def store(self) -> Path:
        """Return where the broker's store is."""
        raise NotImplementedError

    def end(self) -> None:
        """Leave no process behind, whatever state it is in."""
        raise NotImplementedError

    def ask(self, method: str, path: str, document: object) -> Reply | None:
        """Make a request; None where there is no answer, and a little later then."""
        raise NotImplementedError

    def connect(self) -> RemoteEngine:
        """Return what the clockwork asks the broker by; opened once, closed at the end."""
        raise NotImplementedError

    @cached_property
    def engine(self) -> RemoteEngine:
        """Return what the clockwork asks the broker by; any thread may use it."""
        return self.connect()

    # Clients.

    def client(self, name: str) -> Teller:
        """Return a client with a history of its own."""
        recorder = Recorder(self.directory / f"{name}.jsonl", name)
        self._recorders.append(recorder)
        return Teller(name, self.ask, recorder)

    def run(self, work: Callable[["Field", Teller], None], name: str) -> None:
        """Let a client work in a thread; what it raises is raised by `finish`."""
        client = self.client(name)

        def body() -> None:
            try:
                work(self, client)
            except BaseException as error:
                self._errors.append(error)
                raise

        thread = threading.Thread(target=body, name=name)
        self._threads.append(thread)
        thread.start()

    # The end.

    def finish(self) -> History:
        """Heal, let the clients do all that is left, read what there is, and stop."""
        self.nemesis("heal", "")
        self.is_over.set()
        wait_for(self._has_done_all, "all that is left is done")
        self.is_drained.set()
        for thread in self._threads:
            thread.join(DEADLINE_S)
            assert not thread.is_alive(), f"{thread.name} hangs"
        assert self._errors == []
        for topic, group in (*READERS.items(), (JOBS, LEASED)):
            self.read_progress(group, topic)
        for group in (LEASED, SENT_BACK):
            self.read_letters(group)
        self.stop()
        inspection.note(
            self._recorder,
            self.store,
            TOPICS,
            lambda body: id_of(body.decode()),
            lambda body: digest_of(body.decode()),
        )
        return read(self.directory)

    def read_progress(self, group: str, topic: str) -> None:
        """Write down how far a group is in a topic."""
        reading = self._recorder.invoke(Verb.PROGRESS, group=group)
        found = self._progress(group, topic)
        if found is None:
            reading.info("unanswered")
        else:
            reading.ok(offsets=[[topic, 0, *found]])

    def has_done(self, group: str, topic: str) -> bool:
        """Say whether a group has done everything of a topic; one that is not there is done."""
        found = self._progress(group, topic)
        return found is not None and found[0] == found[1]

    def _progress(self, group: str, topic: str) -> tuple[int, int] | None:
        """Return what is committed and the end; the end is read last, and so never too low."""
        places = {"queues": [{"topic": unquote(topic), "queue": 0}]}
        begun = self.ask("POST", f"/api/v1/groups/{group}/offsets:begin", places)
        end = self.ask("GET", f"/api/v1/topics/{topic}/queues/0/messages?offset=0&max=1", None)
        if begun is None or end is None:
            return None
        if begun.status == 404 and begun.document["code"] == "unknown_topic":
            return 0, 0
        assert (begun.status, end.status) == (200, 200), (begun, end)
        return int(begun.document["offsets"][0]["offset"]), int(end.document["max_offset"])

    def read_letters(self, group: str) -> list[list[Any]]:
        """Read the dead letters of a group through the data plane, and write them down."""
        reading = self._recorder.invoke(Verb.LETTERS, group=group)
        letters, offset = [], "0"
        while True:
            path = f"/api/v1/topics/%25DLQ%25{group}/queues/0/messages?offset={offset}&max=100"
            reply = self.ask("GET", path, None)
            if reply is None or reply.status != 200:
                # A group without a dead letter has no topic of them.
                assert reply is not None
                assert reply.document["code"] == "unknown_topic", reply
                break
            letters += [_letter(message) for message in reply.document["messages"]]
            if reply.document["status"] != "FOUND":
                break
            offset = reply.document["next_offset"]
        reading.ok(letters=letters)
        return letters

    def wait_for_turns(self, count: int) -> None:
        """Return when every client that makes something new has begun so often more."""
        goals = {name: turns + count for name, turns in self.turns.copy().items()}
        wait_for(lambda: self._has_turned(goals), f"every client has begun {count} times more")

    def notice(self, verb: Verb, **values: Any) -> None:
        """Write down that something happened at this moment."""
        self._recorder.notice(verb, **values)

    def process(self, target: str, state: str) -> None:
        """Write down that a process started or ended."""
        self.notice(Verb.PROCESS, target=target, state=state, role=target)

    def nemesis(self, fault: str, target: str) -> None:
        """Write down what is done to a process."""
        self.notice(Verb.NEMESIS, fault=fault, target=target)

    def _has_turned(self, goals: dict[str, int]) -> bool:
        """Say whether goals are reached; a client that fails is no reason to wait."""
        assert self._errors == []
        return all(self.turns[name] >= goal for name, goal in goals.items())

    def _has_done_all(self) -> bool:
        """Say whether nothing is delayed, undecided or unread any more."""
        engine = self.engine
        try:
            levels = engine.delay_levels().levels
            waiting = engine.delay_status().pending + engine.transaction_status().pending
        except EngineError:
            return False
        waiting += sum(level.max_offset - level.delivered for level in levels)
        pairs = [(group, topic) for topic, group in READERS.items()]
        pairs += [(LEASED, JOBS), (SENT_BACK, JOBS), (SENT_BACK, f"%25RETRY%25{SENT_BACK}")]
        return waiting == 0 and all(self.has_done(group, topic) for group, topic in pairs)

    def _subscribe(self, group: str, topic: str) -> None:
        self.notice(Verb.SUBSCRIBE, group=group, topic=topic, ordered=False, tags=None)


def _letter(message: dict[str, Any]) -> list[Any]:
    properties = message["properties"]
    return [
        int(message["offset"]),
        id_of(message["body"]),
        digest_of(message["body"]),
        message["reconsume_times"],
        message["origin_topic"],
        int(properties["ORIGIN_QUEUE"]),
        int(properties["ORIGIN_OFFSET"]),
    ]
