"""The example that finds lost messages, on a store with gaps and repeats that are known."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from apps.engine.local import LocalEngine
from tests.engine.offline.stores import send, written

pytestmark = pytest.mark.spark

EXAMPLE = Path(__file__).parents[2] / "examples" / "lost_messages.py"
SCRIPT = EXAMPLE.with_name("lost_in_ten_lines.py")
DOCUMENT = EXAMPLE.parents[1] / "docs" / "PIPELINE.md"
# By queue and producer, in the order they were stored.
SENT = {
    (0, "a"): [1, 2, 5, 4, 8, 8],
    (0, "b"): [3, 4],
    (1, "a"): [1, 2, 3, 2, 2],
}


def example() -> Any:
    spec = importlib.util.spec_from_file_location("lost_messages", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_script_that_is_shown_has_ten_lines() -> None:
    _, _, lines = SCRIPT.read_text().partition('"""\n\n')

    assert sum(bool(line) for line in lines.splitlines()) <= 10
    assert f"```python\n{lines}```" in DOCUMENT.read_text()


def test_the_examples_find_exactly_the_gaps_and_repeats(
    spark: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def work(engine: LocalEngine) -> None:
        for (queue, producer), numbers in SENT.items():
            for number in numbers:
                properties = {"SEQ_PRODUCER": producer, "SEQ_NUMBER": str(number)}
                await send(engine, "orders", queue, b"x", **properties)
        await send(engine, "orders", 1, b"not numbered")

    module = example()
    path = str(written(tmp_path / "data" / "store", work))

    messages = module.numbered(spark, path, "orders").cache()

    lost = [tuple(row) for row in module.lost(spark, messages).collect()]
    repeated = [tuple(row) for row in module.repeated(spark, messages).collect()]
    assert messages.count() == 13
    assert lost == [(0, "a", 3, 3, 1), (0, "a", 6, 7, 2), (0, "b", 1, 2, 2)]
    assert repeated == [(0, "a", 8, 2, [4, 5]), (1, "a", 2, 3, [1, 3, 4])]

    # The session's processes stay in the directory they were started in.
    exec(SCRIPT.read_text().replace("data/store", path), {})
    shown = [line.replace(" ", "").split("|") for line in capsys.readouterr().out.splitlines()]
    told = [tuple(cells[1:-1]) for cells in shown if len(cells) > 1]
    assert told[1:] == [
        ("0", "b", "3", "1", "2"), ("0", "a", "4", "3", "3"), ("0", "a", "8", "6", "7"),
    ]  # fmt: skip
