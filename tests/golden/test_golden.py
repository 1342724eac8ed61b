"""Stores that were written by earlier versions: opened, compared with what they held, verified."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from apps.engine.files import atomic
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.verify.store import open_store
from apps.engine.verify.walks import verify
from tests.engine.damage.stores import image, opened, read_all
from tests.golden.contents import contents_of

HERE = Path(__file__).parent
NAMES = sorted(path.name.removesuffix(".tar.xz") for path in HERE.glob("version-*.tar.xz"))


def unpacked(name: str) -> SimulatedDisk:
    """Return a golden store as it lay on the disk."""
    disk = SimulatedDisk()
    with tarfile.open(fileobj=io.BytesIO((HERE / f"{name}.tar.xz").read_bytes())) as tar:
        files = {entry.name: tar.extractfile(entry) for entry in tar.getmembers()}
        for path, source in files.items():
            assert source is not None
            disk.make_directory(path.rpartition("/")[0])
            file = disk.open(path, create=True)
            file.write(0, [source.read()])
    identity = atomic.load(disk, "store")
    assert identity is not None
    for path in files:
        if path.startswith("commitlog/"):
            disk.open(path).allocate(identity["segment_bytes"])
    return disk


def test_there_is_a_store_of_every_version() -> None:
    assert NAMES == ["version-1"]


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_store_holds_what_it_held(name: str) -> None:
    expected = json.loads((HERE / f"{name}.json").read_text())

    found = contents_of(unpacked(name))

    assert json.loads(json.dumps(found)) == expected
    assert found["recovery"]["cut_bytes"] > 0
    assert found["recovery"]["scanned_records"] > 0
    assert found["transactions"]
    assert found["bodies"]["%DLQ%billing/0"]
    assert found["waiting"]
    assert found["levels"]


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_store_verifies_before_and_after_it_was_opened(name: str) -> None:
    disk = unpacked(name)
    assert len([path for path in disk.content() if path.startswith("commitlog/")]) >= 3
    assert [path for path in disk.content() if path.endswith(".run")]

    for _ in range(2):
        store = open_store(disk, is_running=False)
        assert list(verify(store, started=lambda _name: None)) == []
        store.close()
        broker = opened(disk)
        assert read_all(broker).records
        broker.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_store_without_its_derived_files_holds_the_same(name: str) -> None:
    expected = json.loads((HERE / f"{name}.json").read_text())
    disk = image(unpacked(name))
    for path in ("checkpoint/consumequeue", "checkpoint/consumers", "timer/manifest"):
        disk.remove(path)

    found = json.loads(json.dumps(contents_of(disk)))

    assert found == expected
