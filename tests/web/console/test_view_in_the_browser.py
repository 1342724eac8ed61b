"""What a page does with frames: a missing version is noticed, and all of the view asked for."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")


def taken(tmp_path: Path, *frames: dict[str, Any]) -> list[Any]:
    """Return for each frame whether it was taken, and what is shown after it."""
    script = f"""
import {{ View }} from "{settings.BASE_DIR}/static/console/socket.js";
const view = new View();
const told = {json.dumps(frames)}.map((frame) => [view.take(frame), view.state]);
console.log(JSON.stringify(told));
"""
    (tmp_path / "script.mjs").write_text(script)
    command = ["node", str(tmp_path / "script.mjs")]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    return list(json.loads(found.stdout))


def whole(version: int, **state: Any) -> dict[str, Any]:
    return {"kind": "whole", "version": version, "state": state}


def delta(version: int, **changed: Any) -> dict[str, Any]:
    values = {name: {"=": value} for name, value in changed.items()}
    return {"kind": "delta", "version": version, "delta": {"~": values}}


def test_versions_in_a_row_are_carried_out(tmp_path: Path) -> None:
    assert taken(tmp_path, whole(4, a=1, b=1), delta(5, a=2), delta(6, b=3)) == [
        [True, {"a": 1, "b": 1}], [True, {"a": 2, "b": 1}], [True, {"a": 2, "b": 3}],
    ]  # fmt: skip


def test_after_a_hole_nothing_is_shown_until_all_of_it_comes(tmp_path: Path) -> None:
    assert taken(tmp_path, whole(4, a=1), delta(6, a=3), delta(7, a=4), whole(8, a=5)) == [
        [True, {"a": 1}], [False, None], [False, None], [True, {"a": 5}],
    ]  # fmt: skip


def test_a_version_that_came_before_is_a_hole_too(tmp_path: Path) -> None:
    assert [was for was, _ in taken(tmp_path, whole(4, a=1), delta(4, a=1))] == [True, False]
