"""The log keeps its promises on both disks."""

from pathlib import Path

import pytest

from apps.engine.files.backend import Disk
from apps.engine.files.posix import PosixDisk
from apps.engine.testing.contracts.log import CommitLogContract
from apps.engine.testing.simdisk import SimulatedDisk


class TestLogOnPosixDisk(CommitLogContract):
    @pytest.fixture
    def disk(self, tmp_path: Path) -> Disk:
        return PosixDisk(tmp_path / "store")


class TestLogOnSimulatedDisk(CommitLogContract):
    @pytest.fixture
    def disk(self) -> Disk:
        return SimulatedDisk()
