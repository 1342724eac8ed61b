"""The supervisor's decisions, with programs, signals and time that the test moves."""

import signal
from collections.abc import Callable
from dataclasses import dataclass, field

from apps.bridge import supervisor as supervision
from apps.bridge.children import Program
from apps.bridge.exits import Exit
from apps.bridge.pauses import HEALTHY_MS
from apps.bridge.supervisor import Supervisor

STOP = signal.SIGTERM


class Clock:
    """Time that passes only while somebody waits."""

    def __init__(self) -> None:
        self.now_ms = 0

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms


@dataclass
class Child:
    """A program that ends when the test says so, or at one of the signals in `ends_at`."""

    program: Program
    history: list[str]
    ends_at: frozenset[signal.Signals]
    pid: int = 1
    code: int | None = None

    def poll(self) -> int | None:
        return self.code

    def send(self, number: signal.Signals) -> None:
        self.history.append(f"{self.program.name} {number.name}")
        if number in self.ends_at:
            self.code = 0


@dataclass
class World:
    """Programs as the supervisor sees them, and a script of what happens at each look."""

    clock: Clock = field(default_factory=Clock)
    children: list[Child] = field(default_factory=list)
    history: list[str] = field(default_factory=list)
    script: list[Callable[[], signal.Signals | None]] = field(default_factory=list)
    starts_ms: list[int] = field(default_factory=list)
    ends_at: frozenset[signal.Signals] = frozenset({signal.SIGTERM, signal.SIGINT})

    def start(self, program: Program) -> Child:
        self.history.append(f"{program.name} starts")
        self.starts_ms.append(self.clock.now_ms)
        child = Child(program, self.history, self.ends_at)
        self.children.append(child)
        return child

    def wait(self, timeout_ms: int) -> signal.Signals | None:
        self.clock.now_ms += timeout_ms
        return self.script.pop(0)() if self.script else None

    def supervisor(self) -> Supervisor:
        return Supervisor(clock=self.clock, signals=self, start=self.start)  # type: ignore[arg-type]


def program(name: str, **values: object) -> Program:
    return Program(name=name, command=[name], **values)  # type: ignore[arg-type]


def nothing() -> None:
    """Let time pass."""


def stop() -> signal.Signals:
    """Ask for the end."""
    return STOP


def test_parts_stop_in_the_reverse_of_the_order_they_started() -> None:
    world = World(script=[nothing, stop])
    supervisor = world.supervisor()
    supervisor.add(program("database", stop_signal=signal.SIGINT))
    supervisor.add(program("broker"))

    code = supervisor.run(has_started=lambda: True)

    assert code == Exit.OK
    assert world.history == [
        "database starts",
        "broker starts",
        "broker SIGTERM",
        "database SIGINT",
    ]


def test_a_part_that_dies_is_started_again_after_pauses_that_double() -> None:
    world = World()

    def die() -> None:
        world.children[-1].code = -9

    # Each look takes a second; a pause of 500 ms is over at the next one.
    world.script = [die, nothing, die, nothing, die, nothing, nothing, stop]
    supervisor = world.supervisor()
    supervisor.add(program("broker"))

    supervisor.run(has_started=lambda: True)

    first, second, third, fourth = world.starts_ms
    gaps = [second - first, third - second, fourth - third]
    assert gaps[0] < gaps[1] < gaps[2] or gaps == sorted(gaps)
    assert gaps[2] >= 2_000


def test_the_pause_is_short_again_after_a_long_life() -> None:
    world = World()

    def die() -> None:
        world.children[-1].code = 1

    def live_long() -> None:
        world.clock.now_ms += HEALTHY_MS

    world.script = [die, nothing, die, nothing, live_long, die, nothing, nothing, stop]
    supervisor = world.supervisor()
    supervisor.add(program("broker"))

    supervisor.run(has_started=lambda: True)

    assert len(world.starts_ms) == 4
    # Died at the look after the long life, and started within the next second.
    assert world.starts_ms[3] - world.starts_ms[2] <= HEALTHY_MS + 3_000


def test_a_store_held_by_another_ends_everything_with_its_code() -> None:
    world = World()

    def refuse() -> None:
        world.children[-1].code = Exit.HELD

    world.script = [refuse]
    supervisor = world.supervisor()
    supervisor.add(program("database", final_codes=frozenset()))
    supervisor.add(program("broker"))

    code = supervisor.run(has_started=lambda: True)

    assert code == Exit.HELD
    assert world.history == ["database starts", "broker starts", "database SIGTERM"]


def test_a_database_may_end_with_any_code_and_is_started_again() -> None:
    world = World()

    def die() -> None:
        world.children[0].code = Exit.HELD

    world.script = [die, nothing, stop]
    supervisor = world.supervisor()
    supervisor.add(program("database", final_codes=frozenset()))

    code = supervisor.run(has_started=lambda: True)

    assert code == Exit.OK
    assert world.history.count("database starts") == 2


def test_a_part_that_ignores_the_request_is_stopped_harder() -> None:
    world = World(script=[stop], ends_at=frozenset({signal.SIGKILL}))
    supervisor = world.supervisor()
    harsher = (signal.SIGQUIT, signal.SIGKILL)
    supervisor.add(program("database", stop_signal=signal.SIGINT, harsher_signals=harsher))

    supervisor.run(has_started=lambda: True)

    sent = ["database SIGINT", "database SIGQUIT", "database SIGKILL"]
    assert world.history[1:] == sent
    assert world.clock.now_ms >= supervision.STOP_MS + supervision.HARSHER_STOP_MS


def test_a_second_request_to_stop_does_not_wait() -> None:
    world = World(script=[stop, stop], ends_at=frozenset({signal.SIGKILL}))
    supervisor = world.supervisor()
    supervisor.add(program("broker"))

    supervisor.run(has_started=lambda: True)

    assert world.history[1:] == ["broker SIGTERM", "broker SIGKILL"]
    assert world.clock.now_ms < supervision.STOP_MS


def test_the_end_of_a_child_is_noticed_and_is_no_request_to_stop() -> None:
    world = World()

    def child_ended() -> signal.Signals:
        world.children[-1].code = 1
        return signal.SIGCHLD

    world.script = [child_ended, nothing, stop]
    supervisor = world.supervisor()
    supervisor.add(program("broker"))

    supervisor.run(has_started=lambda: True)

    assert world.history.count("broker starts") == 2


def test_readiness_is_asked_until_it_is_there_once() -> None:
    world = World(script=[nothing] * 5 + [stop])
    answers = [False, False, True, False]
    asked: list[bool] = []

    def has_started() -> bool:
        asked.append(answers.pop(0))
        return asked[-1]

    supervisor = world.supervisor()
    supervisor.add(program("broker"))
    supervisor.run(has_started=has_started)

    assert asked == [False, False, True]


def test_a_part_with_an_end_is_repeated_until_it_succeeds() -> None:
    world = World()

    def end(code: int) -> Callable[[], None]:
        def happen() -> None:
            world.children[-1].code = code

        return happen

    world.script = [end(1), nothing, end(0), nothing, nothing, nothing, stop]
    supervisor = world.supervisor()
    supervisor.add(program("prepare", is_finite=True))

    code = supervisor.run(has_started=lambda: True)

    assert code == Exit.OK
    assert world.history == ["prepare starts", "prepare starts"]


def test_a_program_that_runs_once_is_told_to_stop_as_well() -> None:
    world = World(script=[nothing, stop])
    supervisor = world.supervisor()

    code = supervisor.run_once(program("prepare"))

    assert code == 0
    assert supervisor.is_stopping
    assert world.history == ["prepare starts", "prepare SIGTERM"]


def test_a_part_that_rests_is_given_up_and_the_others_go_on() -> None:
    world = World()

    def end() -> None:
        world.children[-1].code = Exit.LACKING

    world.script = [end, *[nothing] * 60, stop]
    supervisor = world.supervisor()
    supervisor.add(program("broker"))
    supervisor.add(program("spark", resting_codes=frozenset({Exit.LACKING})))

    code = supervisor.run(has_started=lambda: True)

    assert code == Exit.OK
    assert world.history == ["broker starts", "spark starts", "broker SIGTERM"]
