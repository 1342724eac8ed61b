"""What only the real disk can show: short writes, error numbers, descriptors, the page cache."""

import errno
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from apps.engine.errors import OutOfMeans, StoreDamaged, StoreFull, SyncFailed, WriteFailed
from apps.engine.files.backend import Buffer, NotCached
from apps.engine.files.posix import PosixDisk, PosixFile
from apps.engine.testing.contracts.disk import content


@pytest.fixture
def disk(tmp_path: Path) -> PosixDisk:
    return PosixDisk(tmp_path / "store")


@pytest.fixture
def file(disk: PosixDisk) -> PosixFile:
    return disk.open("f", create=True)


class Calls:
    """Stands in for a system call: counts, and answers with what it was told."""

    def __init__(self, error: int) -> None:
        self.count = 0
        self.error = error

    def __call__(self, *_: object) -> int:
        self.count += 1
        raise OSError(self.error, os.strerror(self.error))


@pytest.mark.parametrize("step_bytes", [1, 7, 1000])
def test_a_short_write_is_gone_on_with(
    file: PosixFile, monkeypatch: pytest.MonkeyPatch, step_bytes: int
) -> None:
    calls: list[int] = []

    def short(descriptor: int, buffers: Sequence[bytes], offset: int) -> int:
        calls.append(offset)
        return os.pwrite(descriptor, b"".join(buffers)[:step_bytes], offset)

    monkeypatch.setattr(os, "pwritev", short)
    buffers: list[Buffer] = [b"", b"abc", bytearray(range(200)), memoryview(b"de"), b""]

    file.write(10, buffers)

    assert len(calls) == -(-205 // step_bytes)
    assert content(file) == bytes(10) + b"abc" + bytes(range(200)) + b"de"


def test_a_write_that_writes_nothing_is_an_error(
    file: PosixFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "pwritev", lambda descriptor, buffers, offset: 0)

    with pytest.raises(WriteFailed):
        file.write(0, [b"abc"])


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (errno.ENOSPC, StoreFull),
        (errno.EDQUOT, StoreFull),
        (errno.EFBIG, StoreFull),
        (errno.EIO, WriteFailed),
        (errno.EROFS, WriteFailed),
    ],
)
@pytest.mark.parametrize("call", ["pwritev", "posix_fallocate"])
def test_a_refused_write_says_whether_room_was_wanting(
    file: PosixFile,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    number: int,
    error: type[Exception],
) -> None:
    calls = Calls(number)
    monkeypatch.setattr(os, call, calls)

    with pytest.raises(error):
        file.write(0, [b"abc"]) if call == "pwritev" else file.allocate(4096)

    assert calls.count == 1
    assert file.size() == 0


def test_a_real_limit_on_the_file_size_is_a_full_store(tmp_path: Path) -> None:
    program = f"""
import resource, signal
from pathlib import Path
from apps.engine.errors import StoreFull
from apps.engine.files.posix import PosixDisk
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
file = PosixDisk(Path({str(tmp_path / "store")!r})).open("f", create=True)
for act in (lambda: file.allocate(65536), lambda: file.write(8000, [bytes(4096)])):
    try:
        act()
    except StoreFull:
        print("full", file.size())
"""

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    # The second write got as far as the limit before it was refused.
    assert done.stdout == "full 0\nfull 8192\n"


def test_a_failed_sync_is_never_tried_again(
    file: PosixFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(errno.EIO)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", calls)
        with pytest.raises(SyncFailed):
            file.sync()

    with pytest.raises(SyncFailed):
        file.sync()
    with pytest.raises(WriteFailed):
        file.write(0, [b"abc"])
    assert calls.count == 1


def test_a_failed_sync_of_a_directory_is_told(
    disk: PosixDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", Calls(errno.EIO))

    with pytest.raises(SyncFailed):
        disk.sync_directory("")


def test_a_read_error_is_damage(file: PosixFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "preadv", Calls(errno.EIO))

    with pytest.raises(StoreDamaged):
        content(file)


def test_a_read_that_may_not_wait_tells_when_it_would(
    file: PosixFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(errno.EAGAIN)
    monkeypatch.setattr(os, "preadv", calls)

    with pytest.raises(NotCached):
        file.read_into(0, memoryview(bytearray(3)), wait=False)

    assert calls.count == 1


def test_a_half_cached_range_counts_as_not_cached(
    file: PosixFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write(0, [b"abcdef"])
    real = os.preadv

    def half(descriptor: int, buffers: list[memoryview], offset: int, flags: int) -> int:
        if offset:
            raise BlockingIOError
        return real(descriptor, [buffers[0][:3]], offset)

    monkeypatch.setattr(os, "preadv", half)

    with pytest.raises(NotCached):
        file.read_into(0, memoryview(bytearray(6)), wait=False)


def test_a_file_system_without_such_reads_is_read_waiting(
    file: PosixFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write(0, [b"abc"])
    real = os.preadv
    asked: list[int] = []

    def old(descriptor: int, buffers: list[memoryview], offset: int, flags: int) -> int:
        asked.append(flags)
        if flags:
            raise OSError(errno.EOPNOTSUPP, "no")
        return real(descriptor, buffers, offset)

    monkeypatch.setattr(os, "preadv", old)
    targets = [bytearray(3), bytearray(3)]
    for target in targets:
        file.read_into(0, memoryview(target), wait=False)

    assert targets == [b"abc", b"abc"]
    assert asked == [os.RWF_NOWAIT, 0, 0]


def test_a_cold_file_is_told_from_a_cached_one(disk: PosixDisk, tmp_path: Path) -> None:
    file = disk.open("f", create=True)
    file.write(0, [bytes(1 << 20)])
    file.sync()
    os.posix_fadvise(file._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    target = memoryview(bytearray(1 << 20))

    try:
        file.read_into(0, target, wait=False)
    except NotCached:
        file.read_into(0, target, wait=True)
    else:
        pytest.skip("this file system keeps its pages whatever it is advised")

    assert file.read_into(0, target, wait=False) == 1 << 20


def test_descriptors_are_closed_in_programs_that_are_started(file: PosixFile) -> None:
    assert not os.get_inheritable(file._descriptor)


@pytest.mark.parametrize(
    ("number", "kind", "text"),
    [
        (errno.EMFILE, OutOfMeans, "Too many open files"),
        (errno.ENFILE, OutOfMeans, "Too many open files"),
        (errno.ENOMEM, OutOfMeans, "Cannot allocate memory"),
        (errno.ENOSPC, StoreFull, "No space left"),
        (errno.EIO, WriteFailed, "Input/output error"),
    ],
)
def test_a_file_that_cannot_be_opened_says_what_is_missing(
    disk: PosixDisk,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    kind: type[Exception],
    text: str,
) -> None:
    calls = Calls(number)
    monkeypatch.setattr(os, "open", calls)

    with pytest.raises(kind, match=text):
        disk.open("f", create=True)


def test_a_directory_whose_name_could_not_be_synced_is_made_anew(
    disk: PosixDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", Calls(errno.EMFILE))
        with pytest.raises(OutOfMeans):
            disk.make_directory("a")
    assert not disk.exists("a")

    disk.make_directory("a")
    assert disk.exists("a")


def test_a_read_without_memory_is_no_damage(
    disk: PosixDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open("f", create=True)
    file.write(0, [b"x"])
    monkeypatch.setattr(os, "preadv", Calls(errno.ENOMEM))

    with pytest.raises(OutOfMeans):
        file.read_into(0, memoryview(bytearray(1)))
