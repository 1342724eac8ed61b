"""Both disks keep what the seam promises."""

from pathlib import Path

import pytest

from apps.engine.files.backend import Disk
from apps.engine.files.posix import PosixDisk
from apps.engine.testing.contracts.disk import DiskContract
from apps.engine.testing.simdisk import SimulatedDisk


class TestPosixDisk(DiskContract):
    @pytest.fixture
    def disk(self, tmp_path: Path) -> Disk:
        return PosixDisk(tmp_path / "store")


class TestSimulatedDisk(DiskContract):
    @pytest.fixture
    def disk(self) -> Disk:
        return SimulatedDisk()
