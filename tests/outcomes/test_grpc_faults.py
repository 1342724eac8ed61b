"""RocketMQ's protocol while the broker is killed and stopped: the same promises, by another door.

Clients send, delay, recall, decide, answer checks, receive, change how long messages are hidden,
acknowledge and give up by gRPC; what that cannot say is said by HTTP, and the judges are those of
every door.
"""

import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.histories.history import History
from tests.histories.recorder import Recorder
from tests.outcomes import roles
from tests.outcomes.brokers import BrokerField
from tests.outcomes.calls import Teller
from tests.outcomes.field import LATER, NUMBERED, PAID, Field
from tests.outcomes.grpccalls import GrpcTeller
from tests.outcomes.judging import WANTED, judge
from tests.process.product import free_port
from tests.rounds import report, rounds, seed_of_run

pytestmark = pytest.mark.process

SEED = seed_of_run()
# A check by this protocol says nothing of its number; that there were some is asserted.
WANTED_HERE = WANTED - {"checks"}


class GrpcField(BrokerField):
    """A run whose clients named so come by gRPC."""

    def __init__(self, directory: Path, seed: int) -> None:
        """Make the store."""
        super().__init__(directory, seed)
        port = free_port()
        self.variables["MQWEB_GRPC_PORT"] = str(port)
        self._endpoint = f"127.0.0.1:{port}"
        self.tellers: list[GrpcTeller] = []

    def client(self, name: str) -> Teller:
        """Return a client with a history of its own."""
        if not name.startswith("grpc"):
            return super().client(name)
        recorder = Recorder(self.directory / f"{name}.jsonl", name)
        self._recorders.append(recorder)
        teller = GrpcTeller(name, self.ask, recorder, self._endpoint)
        self.tellers.append(teller)
        return teller

    def end(self) -> None:
        """Leave no connection and no process behind."""
        for teller in self.tellers:
            teller.close()
        super().end()


def answer_by_stream(field: Field, client: Teller) -> None:
    """Decide what others left open, as the stream asks: a third of it is never decided."""
    assert isinstance(client, GrpcTeller)
    while not field.is_drained.is_set():
        for id_, transaction in client.checks_by_stream(PAID, field.is_drained):
            outcome = ("committed", "rolled_back", None)[roles.fate_of(f"check {id_}", 3)]
            if outcome is not None:
                client.end(id_, transaction, outcome, is_asked=True)


ROLES = {
    "grpc-delayer": roles.delay,
    "ticker": roles.tick_levels,
    "grpc-decider": roles.decide,
    "grpc-checker-1": answer_by_stream,
    "grpc-checker-2": answer_by_stream,
    "grpc-maker": roles.make_jobs,
    "grpc-leaser": roles.fail_leases,
    "back": roles.fail_by_sending_back,
    "finder": roles.find_given_up,
    "grpc-reader-1": roles.read(LATER),
    "grpc-reader-2": roles.read(PAID),
    # The protocol has no numbers to send again under.
    "numberer": roles.number,
    "grpc-reader-3": roles.read(NUMBERED),
}
Act = Callable[[BrokerField], None]


def run(directory: Path, seed: int, acts: Sequence[Act], *, turns: int = 20) -> History:
    """Let all roles work while acts are carried out; return what the clients saw."""
    print(f"again: MQWEB_TEST_SEED={seed} {sys.executable} -m pytest -s {__file__}")
    with GrpcField(directory, seed) as field:
        for name, role in ROLES.items():
            field.run(role, name)
        for act in acts:
            field.wait_for_turns(field.rng.randrange(turns // 2, turns))
            print(act.__name__)
            act(field)
        field.wait_for_turns(turns)
        history = field.finish()
        assert sum(teller.check_count for teller in field.tellers), "nobody was asked anything"
        return history


def test_a_killed_and_a_stopped_broker_keep_every_promise_to_grpc_clients(tmp_path: Path) -> None:
    history = run(tmp_path, SEED, [BrokerField.kill, BrokerField.pause])

    judge(history, fault_count=2, wanted=WANTED_HERE)


@pytest.mark.longest
@pytest.mark.crash
@pytest.mark.parametrize("number", range(rounds(1)))
def test_many_faults_in_any_order(tmp_path: Path, number: int) -> None:
    seed = SEED + number
    acts = random.Random(seed).choices([BrokerField.kill, BrokerField.pause], weights=[3, 1], k=12)

    history = run(tmp_path, seed, acts, turns=30)

    counts = judge(history, fault_count=12, wanted=WANTED_HERE)
    report(
        "P1 P5 P6 N5 outcomes by gRPC",
        seed=seed,
        faults=12,
        early=counts.get("early", 0),
        lost=counts.get("lost", 0),
        dead_letters=counts["letters"],
    )
