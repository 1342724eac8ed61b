"""Deltas: what is made of the old value is the new one, in Python and in the browser."""

import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from apps.console.deltas import delta_of
from tests.rounds import seed_of_run
from tests.web.console.live import applied

ROUNDS = 2_000


def value(dice: random.Random, depth: int = 0) -> Any:
    """Return a value of JSON as pictures have them: objects, lists of rows, lists, plain values."""
    kind = dice.randrange(7 if depth < 3 else 4)
    if kind == 0:
        return dice.choice([None, 0.5, "", "a"])
    if kind <= 3:
        return dice.randrange(4)
    if kind == 4:
        return {name: value(dice, depth + 1) for name in dice.sample("abcdef=+~-", 3)}
    if kind == 5:
        by = dice.choice(["id", "name", "client_id", "group"])
        ids = dice.sample(range(12), dice.randrange(6))
        return [{by: id_, "x": value(dice, depth + 1)} for id_ in ids]
    return [value(dice, depth + 1) for _ in range(dice.randrange(4))]


def mutated(dice: random.Random, old: Any) -> Any:
    """Return a value that is mostly as it was: what a second does to a picture."""
    if dice.randrange(8) == 0:
        return value(dice)
    if isinstance(old, dict):
        return {name: mutated(dice, below) for name, below in old.items() if dice.randrange(12)}
    if isinstance(old, list):
        found = [mutated(dice, row) for row in old if dice.randrange(12)]
        if dice.randrange(4) == 0:
            dice.shuffle(found)
        return found
    return old


def pairs() -> list[tuple[Any, Any]]:
    seed = seed_of_run()
    print(f"seed {seed}")
    dice = random.Random(seed)
    made = []
    for _ in range(ROUNDS):
        old = value(dice)
        made.append((old, mutated(dice, old)))
    return made


def test_a_delta_makes_the_new_value_of_the_old_one() -> None:
    changed = 0
    for old, new in pairs():
        delta = delta_of(old, new)
        kept = json.dumps(old)

        found = old if delta is None else applied(old, delta)

        assert json.dumps(found, sort_keys=True) == json.dumps(new, sort_keys=True), (old, delta)
        assert json.dumps(old) == kept
        changed += delta is not None
    assert changed > ROUNDS // 4


@pytest.mark.skipif(shutil.which("node") is None, reason="the browser's half needs Node.js")
def test_the_browser_makes_the_same_of_it(tmp_path: Path) -> None:
    cases = [
        {"old": old, "delta": delta, "new": new}
        for old, new in pairs()
        if (delta := delta_of(old, new)) is not None
    ]
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    script = f"""
import {{ readFileSync }} from "node:fs";
import {{ isDeepStrictEqual }} from "node:util";
import {{ applied }} from "{settings.BASE_DIR}/static/console/delta.js";
const cases = JSON.parse(readFileSync("{tmp_path}/cases.json"));
const bad = cases.filter(({{ old, delta, new: wanted }}) => {{
  const kept = structuredClone(old);
  return !isDeepStrictEqual(applied(old, delta), wanted) || !isDeepStrictEqual(old, kept);
}});
console.log(JSON.stringify({{ count: cases.length, bad: bad.slice(0, 3) }}));
"""
    (tmp_path / "script.mjs").write_text(script)

    told = subprocess.run(
        ["node", str(tmp_path / "script.mjs")], capture_output=True, text=True, check=True
    )

    assert json.loads(told.stdout) == {"count": len(cases), "bad": []}


def test_a_row_that_changes_costs_a_row_and_not_the_list() -> None:
    old = {
        "rows": [{"name": f"t{n}", "held": n, "queues": [{"id": "0", "x": 1}]} for n in range(99)]
    }
    new = json.loads(json.dumps(old))
    new["rows"][7]["held"] = 8

    assert delta_of(old, new) == {"~": {"rows": {"by": "name", "~": {"t7": {"+": {"held": 8}}}}}}
