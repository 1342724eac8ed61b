"""`python -m benchmarks`: choose what to measure, measure it, print one report."""

import argparse
import json
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from types import FrameType

from benchmarks import machine, plots, report
from benchmarks.ours import Mqweb
from benchmarks.peers.nats import Nats
from benchmarks.peers.rabbitmq import RabbitMq
from benchmarks.peers.redis import Redis
from benchmarks.readings import Reading
from benchmarks.runs import (
    backlog,
    batches,
    celery,
    delays,
    engine,
    holds,
    idle,
    latency,
    levels,
    one_by_one,
    recovery,
    rest,
    rocketmq,
    spark,
    spark_jobs,
    sweeps,
)
from benchmarks.settings import ROCKETMQ_SERVERS, Settings
from benchmarks.sides import Side

_RUNS: dict[str, Callable[[Settings], Iterator[Reading]]] = {
    "engine": engine.measure,
    "holds": holds.measure,
    "idle": idle.measure,
    "backlog": backlog.measure,
    "recovery": recovery.measure,
    "delays": delays.measure,
    "levels": levels.measure,
    "batches": batches.measure,
    "one_by_one": one_by_one.measure,
    "rest": rest.measure,
    "rocketmq": rocketmq.measure,
    "latency": latency.measure,
    "sweeps": sweeps.measure,
    "celery": celery.measure,
    "spark": spark.measure,
    "spark_jobs": spark_jobs.measure,
}
_PEERS: dict[str, Callable[[], Side]] = {"redis": Redis, "nats": Nats, "rabbitmq": RabbitMq}


def main(arguments: Sequence[str]) -> int:
    """Run the benchmarks; return 0, 1 after a fault, 2 when nothing can be measured."""
    chosen = _parser().parse_args(arguments)
    directory = Path(tempfile.mkdtemp(prefix="mqweb-bench-", dir=chosen.directory))
    # The embedded database runs under another account, which must be able to pass.
    directory.chmod(0o755)
    try:
        return _run(chosen, directory)
    finally:
        shutil.rmtree(directory)


def _run(chosen: argparse.Namespace, directory: Path) -> int:
    facts = machine.inspect(directory)
    if not facts.is_on_disk:
        print(f"{directory} lies in memory; choose a disk with --directory", file=sys.stderr)
        return 2
    ours: Side = Mqweb()
    absent = {}
    sides = [ours]
    for name in chosen.peers:
        side = _PEERS[name]()
        if why := side.missing():
            absent[side.name] = f"not measured: {why}"
        else:
            sides.append(side)
    versions = {side.name: side.versions() for side in sides} | absent
    settings = Settings(
        repetitions=1 if chosen.quick else chosen.repetitions,
        seconds=1.0 if chosen.quick else chosen.seconds,
        directory=directory,
        sides=sides,
        rocketmq_servers=chosen.rocketmq_servers,
        rocketmq_connections=chosen.rocketmq_connections,
    )
    readings = _measured(settings, chosen.only)
    command = f"python -m benchmarks {shlex.join(_measuring(sys.argv[1:]))}".strip()
    print(f"Command: `{command}`; {settings.repetitions} repetitions, medians and the worst.\n")
    print(report.machine_facts(facts, versions), end="\n\n")
    print(report.tables(readings), end="\n\n")
    print("### everything, by the best way of each\n")
    print(report.summary(readings, [side.name.split()[0] for side in sides]))
    if chosen.plots is not None:
        for path in plots.draw(readings, chosen.plots, command=command):
            print(f"drawn: {path}", file=sys.stderr)
    if chosen.json is not None:
        _write_json(chosen.json, command, facts, versions, readings)
    return 1 if report.has_fault(readings) else 0


def _measuring(arguments: Sequence[str]) -> list[str]:
    """Leave out where results go: paths of one machine, which change nothing in them."""
    places = argparse.ArgumentParser(add_help=False)
    for flag in ("--json", "--plots", "--directory"):
        places.add_argument(flag)
    return places.parse_known_args(arguments)[1]


def _measured(settings: Settings, only: Sequence[str]) -> list[Reading]:
    readings = []
    for name, measure in _RUNS.items():
        if only and name not in only:
            continue
        for reading in measure(settings):
            told = reading.fault or ", ".join(f"{k} {v:,.2f}" for k, v in reading.figures.items())
            print(f"{name}: {reading.work.title}: {reading.side}: {told}", file=sys.stderr)
            readings.append(reading)
    return readings


def _write_json(
    path: Path,
    command: str,
    facts: machine.Machine,
    versions: dict[str, str],
    readings: Sequence[Reading],
) -> None:
    document = {
        "command": command,
        "machine": asdict(facts),
        "versions": versions,
        "readings": [asdict(reading) for reading in readings],
    }
    path.write_text(json.dumps(document, indent=1))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure mqweb and its peers on the same work."
    )
    parser.add_argument("--quick", action="store_true", help="one short repetition")
    parser.add_argument(
        "--only", action="append", choices=_RUNS, default=[], help="one run; repeat for more"
    )
    parser.add_argument(
        "--peers", nargs="*", choices=_PEERS, default=list(_PEERS), help="whom to compare with"
    )
    parser.add_argument(
        "--rocketmq-servers", nargs="+", choices=ROCKETMQ_SERVERS, default=ROCKETMQ_SERVERS,
        help="under which servers `rocketmq` measures",
    )  # fmt: skip
    parser.add_argument(
        "--rocketmq-connections", nargs="+", type=int, default=(1, 16),
        help="on how many connections `rocketmq` measures, one after the other",
    )  # fmt: skip
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one measurement")
    parser.add_argument("--json", type=Path, help="also write every reading to this file")
    parser.add_argument(
        "--plots", type=Path, help="draw the curves of `sweeps` into this directory"
    )
    parser.add_argument("--directory", type=Path, help="disk to work on; a temporary one if unset")
    return parser


def _end(_number: int, _frame: FrameType | None) -> None:
    # As an exception, so that servers are stopped and directories removed on the way out.
    sys.exit(1)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    sys.exit(main(sys.argv[1:]))
