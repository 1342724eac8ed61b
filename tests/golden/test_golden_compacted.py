"""Kept messages of earlier versions: read, compared, verified, and read again."""

import json

import pytest

from apps.engine.verify.store import open_store
from apps.engine.verify.walks import verify
from tests.golden.compacted import contents_of
from tests.golden.test_golden import HERE, unpacked

NAMES = sorted(path.name.removesuffix(".tar.xz") for path in HERE.glob("compacted-*.tar.xz"))


def test_there_is_a_store_of_every_version_of_kept_messages() -> None:
    assert NAMES == ["compacted-1"]


@pytest.mark.parametrize("name", NAMES)
async def test_a_golden_compacted_store_holds_what_it_held(name: str) -> None:
    expected = json.loads((HERE / f"{name}.json").read_text())
    disk = unpacked(name)

    for _ in range(2):
        store = open_store(disk, is_running=False)
        assert list(verify(store, started=lambda _name: None)) == []
        store.close()
        assert await contents_of(disk) == expected
    assert expected["log_start"] > 0
    assert sum(expected["kept"]) > 5
