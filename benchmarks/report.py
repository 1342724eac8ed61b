"""Readings as Markdown tables. Computes medians and ratios; measures nothing."""

from collections.abc import Sequence
from statistics import median

from benchmarks.machine import Machine
from benchmarks.readings import Reading, Work


def machine_facts(machine: Machine, versions: dict[str, str]) -> str:
    """Return the facts as a list."""
    facts = {
        "CPU": f"{machine.cpu}, {machine.cores} cores, {machine.memory_gib:.0f} GiB of memory",
        "System": f"Linux {machine.kernel}, Python {machine.python}",
        "Disk": f"{machine.filesystem}, 4 KiB written and fdatasync: "
        f"p50 {machine.fdatasync_p50_us:.0f} us, p99 {machine.fdatasync_p99_us:.0f} us",
        "Page cache": f"fresh pages are written at {machine.fresh_pages_gb_s:.2f} GB/s, "
        f"known ones at {machine.known_pages_gb_s:.2f} GB/s",
        "Load before the run": f"{machine.load:.2f}",
        **versions,
    }
    return "\n".join(f"- {name}: {value}" for name, value in facts.items())


def tables(readings: Sequence[Reading]) -> str:
    """Return one section for each line of work, in the order of its first reading."""
    works = list(dict.fromkeys(reading.work for reading in readings))
    return "\n\n".join(
        _section(work, [reading for reading in readings if reading.work == work]) for work in works
    )


def summary(readings: Sequence[Reading], families: Sequence[str]) -> str:
    """Return one table of everything: each family of sides by its best way, and the ratio.

    `families` are the names sides begin with, ours first. The ratio is to the best peer that
    promises what the mode asks for; points of plots are left out.
    """
    head = ["work", *families, "ratio", "acknowledged means"]
    lines = [_line(head), _line(["---"] * len(head))]
    works = dict.fromkeys(reading.work for reading in readings if not reading.work.plot)
    for work in works:
        rows = _rows([reading for reading in readings if reading.work == work])
        best = [_best_of(work, rows, family) for family in families]
        if best[0] is None:
            # Parts that only we have are measured in several sizes; each has a table of its own.
            continue
        peers = [row for row in best[1:] if row is not None and not row.terms.is_weaker]
        peers.sort(key=lambda row: row.middle(work.headline), reverse=not work.is_lower_better)
        ratio = f"{_ratio(work, best[0], peers[0]):.2f}" if peers else ""
        means = "; ".join(
            f"{family}: {row.terms.text}"
            for family, row in zip(families, best, strict=True)
            if row is not None
        )
        cells = ["" if row is None else _figure(row.middle(work.headline)) for row in best]
        lines.append(_line([f"{work.title}, {work.headline}", *cells, ratio, means]))
    return "\n".join(lines)


def _best_of(work: Work, rows: Sequence["_Row"], family: str) -> "_Row | None":
    """Return the best row of a family: one that promises what was asked for, if there is one."""
    found = [row for row in rows if row.side.startswith(family) and not row.faults]
    found.sort(key=lambda row: row.middle(work.headline), reverse=not work.is_lower_better)
    found.sort(key=lambda row: row.terms.is_weaker)
    return found[0] if found else None


def has_fault(readings: Sequence[Reading]) -> bool:
    """Say whether any measurement lost, duplicated or altered a message, or failed."""
    return any(reading.fault for reading in readings)


def _section(work: Work, readings: Sequence[Reading]) -> str:
    rows = _rows(readings)
    names = list(dict.fromkeys(name for row in rows for name in row.names))
    head = ["side", "messages", *names, f"{work.headline}, worst", "an acknowledgement means"]
    lines = [f"### {work.title}", ""]
    if work.note:
        lines += [work.note, ""]
    lines += [_line(head), _line(["---"] * len(head))]
    lines += [_line(row.cells(work, names)) for row in rows]
    lines += ["", *_comparisons(work, rows)]
    return "\n".join(lines).rstrip()


def _rows(readings: Sequence[Reading]) -> list["_Row"]:
    sides = dict.fromkeys(reading.side for reading in readings)
    return [_Row([reading for reading in readings if reading.side == side]) for side in sides]


class _Row:
    """All readings of one side in one line of work."""

    def __init__(self, readings: Sequence[Reading]) -> None:
        self.readings = readings
        self.side = readings[0].side
        self.is_ours = readings[0].is_ours
        self.terms = readings[0].terms
        self.faults = list(dict.fromkeys(reading.fault for reading in readings if reading.fault))
        self.names = [] if self.faults else list(readings[0].figures)

    def middle(self, name: str) -> float:
        """Return the median over the repetitions."""
        return median(reading.figures[name] for reading in self.readings)

    def cells(self, work: Work, names: Sequence[str]) -> list[str]:
        """Return the row; a fault stands where the figures would be."""
        means = self.terms.text + (" (weaker than asked)" if self.terms.is_weaker else "")
        if self.faults:
            return [self.side, "", f"FAULT: {'; '.join(self.faults)}", *[""] * len(names), means]
        values = [reading.figures[work.headline] for reading in self.readings]
        worst = max(values) if work.is_lower_better else min(values)
        count = min(reading.count for reading in self.readings)
        middles = [_figure(self.middle(name)) for name in names]
        return [self.side, f"{count:,}", *middles, _figure(worst), means]


def _comparisons(work: Work, rows: Sequence[_Row]) -> list[str]:
    """Say how ours stands against each peer, the best one with an equal promise first."""
    ours = [row for row in rows if row.is_ours and not row.faults]
    peers = [row for row in rows if not row.is_ours and not row.faults]
    peers.sort(key=lambda row: row.middle(work.headline), reverse=not work.is_lower_better)
    peers.sort(key=lambda row: row.terms.is_weaker)
    lines = []
    for row in ours:
        against = [f"{_ratio(work, row, peer):.2f} x {peer.side}" for peer in peers]
        if against:
            # Bold is the best peer that promises what the mode asks for.
            if not peers[0].terms.is_weaker:
                against[0] = f"**{against[0]}**"
            lines.append(f"{row.side} is {', '.join(against)}.")
    return lines


def _ratio(work: Work, ours: _Row, peer: _Row) -> float:
    pair = (ours.middle(work.headline), peer.middle(work.headline))
    return pair[1] / pair[0] if work.is_lower_better else pair[0] / pair[1]


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
