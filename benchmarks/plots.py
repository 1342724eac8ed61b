"""Curves of readings as SVG files. Computes medians; measures nothing."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.readings import Reading

# The order of sides decides their colours, so that a side has the same one in every picture.
_COLOURS = ("#0b6e99", "#c2410c", "#4d7c0f", "#7e22ce")
_SIZE_INCHES = (7.0, 4.2)


def draw(readings: Sequence[Reading], directory: Path, *, command: str) -> list[Path]:
    """Write one picture for each curve among the readings; return the files.

    Both axes are logarithmic: a side that is ten times another is as far away everywhere. Points
    with a fault are left out.
    """
    directory.mkdir(parents=True, exist_ok=True)
    plots = dict.fromkeys(reading.work.plot for reading in readings if reading.work.plot)
    return [
        _draw(
            name,
            [reading for reading in readings if reading.work.plot == name and not reading.fault],
            directory,
            command=command,
        )
        for name in plots
    ]


def _draw(name: str, readings: Sequence[Reading], directory: Path, *, command: str) -> Path:
    # Imported here: only who draws needs it installed.
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # The same readings give the same bytes.
    mpl.rcParams["svg.hashsalt"] = "mqweb"
    mpl.rcParams["font.family"] = "sans-serif"
    figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
    axes = figure.subplots()
    sides = dict.fromkeys(reading.side for reading in readings)
    for side, colour in zip(sides, _COLOURS, strict=False):
        points = _points([reading for reading in readings if reading.side == side])
        width = 2.4 if side == next(iter(sides)) else 1.4
        axes.plot(*zip(*points, strict=True), "o-", label=side, color=colour, linewidth=width)
    work = readings[0].work
    axes.set(xscale="log", yscale="log", title=name, ylabel=work.headline)
    axes.set_xlabel("messages a batch" if "batch" in name else "messages a second, offered")
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend()
    figure.text(0.01, 0.005, command, fontsize=6, alpha=0.6)
    path = directory / f"{name.lower().replace(' ', '-')}.svg"
    figure.savefig(path, format="svg", metadata={"Date": None})
    return path


def _points(readings: Sequence[Reading]) -> list[tuple[float, float]]:
    at = sorted({reading.work.at for reading in readings})
    return [
        (
            each,
            median(
                reading.figures[reading.work.headline]
                for reading in readings
                if reading.work.at == each
            ),
        )
        for each in at
    ]
