"""A broadcasting member's offsets in a file: replaced whole, read whatever a crash left behind."""

import json
from pathlib import Path

import pytest
from mqclient import Conflict, InvalidArgument, TopicQueue
from mqclient.consuming.push.keeping import KeptOffsets

from tests.sdk.push.doubles import FIRST, SECOND


def kept(folder: Path) -> KeptOffsets:
    return KeptOffsets(folder, "host/1", "group|1")


def read(folder: Path) -> dict[TopicQueue, int]:
    offsets = kept(folder)
    try:
        return offsets.open()
    finally:
        offsets.close()


def saved(folder: Path) -> Path:
    """Keep offsets twice, so that there is a file and one before it; return the file."""
    offsets = kept(folder)
    offsets.open()
    offsets.save({FIRST: 5})
    offsets.save({FIRST: 9, SECOND: 2**60})
    offsets.close()
    return offsets.path


def test_what_was_kept_is_there_the_next_time(tmp_path: Path) -> None:
    path = saved(tmp_path)

    assert read(tmp_path) == {FIRST: 9, SECOND: 2**60}
    assert json.loads(path.read_text()) == {
        "version": 1, "offsets": {"orders": {"0": 9, "1": 2**60}},
    }  # fmt: skip


def test_nothing_was_kept_at_first(tmp_path: Path) -> None:
    assert read(tmp_path) == {}


@pytest.mark.parametrize(
    "damage",
    [
        b"", b"\x00" * 40, b"{", b"[]", b'{"version": 2, "offsets": {}}', b'{"version": 1}',
        b'{"version": 1, "offsets": {"orders": {"0": -1}}}',
        b'{"version": 1, "offsets": {"orders": {"0": "9"}}}',
        b'{"version": 1, "offsets": {"orders": {"x": 9}}}',
        b'{"version": 1, "offsets": {"orders": 9}}', b"\xff\xfe",
    ],
)  # fmt: skip
def test_a_damaged_file_is_told_and_the_one_before_it_is_read(
    tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    saved(tmp_path).write_bytes(damage)

    assert read(tmp_path) == {FIRST: 5}
    assert "cannot be read, looking further" in caplog.text


def test_with_both_files_damaged_it_begins_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = saved(tmp_path)
    path.write_bytes(b"{")
    path.with_suffix(".json.bak").write_bytes(b"{")

    assert read(tmp_path) == {}
    assert caplog.text.count("cannot be read") == 2


@pytest.mark.parametrize("left_behind", ["aside", "renamed"])
def test_a_crash_while_the_file_is_replaced_leaves_one_that_can_be_read(
    tmp_path: Path, left_behind: str
) -> None:
    # Either the new file was being written, or the old one was moved and the new one not yet.
    path = saved(tmp_path)
    if left_behind == "aside":
        path.with_suffix(".json.new").write_bytes(b'{"version": 1, "off')
    else:
        path.replace(path.with_suffix(".json.bak"))

    assert read(tmp_path) == {FIRST: 9, SECOND: 2**60}


def test_a_queue_that_is_not_read_now_keeps_what_it_had(tmp_path: Path) -> None:
    saved(tmp_path)
    offsets = kept(tmp_path)
    offsets.open()
    offsets.save({FIRST: 10})
    offsets.close()

    assert read(tmp_path) == {FIRST: 10, SECOND: 2**60}


def test_two_consumers_do_not_keep_the_same_offsets(tmp_path: Path) -> None:
    first, second = kept(tmp_path), kept(tmp_path)
    first.open()

    with pytest.raises(Conflict):
        second.open()

    first.close()
    try:
        assert second.open() == {}
    finally:
        second.close()


def test_a_full_disk_is_logged_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    offsets = kept(tmp_path)
    offsets.open()
    with monkeypatch.context() as patch:

        def full(_number: int) -> None:
            raise OSError(28, "no space left")

        patch.setattr("os.fsync", full)
        offsets.save({FIRST: 5})
    is_there = offsets.path.exists()
    offsets.save({FIRST: 5})
    offsets.close()

    assert not is_there
    assert "no space left" in caplog.text
    assert read(tmp_path) == {FIRST: 5}


def test_a_damaged_file_does_not_take_the_place_of_the_one_before_it(tmp_path: Path) -> None:
    path = saved(tmp_path)
    path.write_bytes(b"{")
    offsets = kept(tmp_path)
    offsets.open()
    offsets.save({FIRST: 6})
    offsets.close()
    path.unlink()

    assert read(tmp_path) == {FIRST: 5}


def test_groups_and_clients_have_files_of_their_own_inside_the_folder(tmp_path: Path) -> None:
    paths = {
        KeptOffsets(tmp_path, client, group).path
        for client in ("a", "A", "../a", "a/b", "a%2Fb")
        for group in ("g", "g|1")
    }

    assert len(paths) == 10
    assert all(path.resolve().is_relative_to(tmp_path.resolve()) for path in paths)
    assert {len(path.relative_to(tmp_path).parts) for path in paths} == {2}


@pytest.mark.parametrize("client", ["", ".", "..", "x" * 256])
def test_a_client_id_no_folder_can_have_is_refused(tmp_path: Path, client: str) -> None:
    with pytest.raises(InvalidArgument):
        KeptOffsets(tmp_path, client, "g")
