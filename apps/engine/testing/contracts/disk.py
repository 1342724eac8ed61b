"""What every disk promises the engine. Knows the seam only, no implementation of it."""

import pytest

from apps.engine.errors import StoreLocked
from apps.engine.files.backend import Disk, File


def content(file: File, start: int = 0, size_bytes: int = 1 << 20) -> bytes:
    """Return what a file holds from `start`, at most `size_bytes`."""
    target = bytearray(size_bytes)
    found = file.read_into(start, memoryview(target))
    return bytes(target[:found])


class DiskContract:
    """Inherit, supply `disk`, and every promise of `Disk` and `File` is tested."""

    @pytest.fixture
    def disk(self) -> Disk:
        """Return an empty disk."""
        raise NotImplementedError

    def test_bytes_read_back_as_written(self, disk: Disk) -> None:
        file = disk.open("f", create=True)

        file.write(0, [b"abc", bytearray(b"de"), memoryview(b"f")])

        assert content(file) == b"abcdef"
        file.close()

    def test_a_write_in_the_middle_leaves_the_rest(self, disk: Disk) -> None:
        file = disk.open("f", create=True)
        file.write(0, [b"abcdef"])

        file.write(2, [b"XY"])

        assert content(file) == b"abXYef"
        file.close()

    def test_more_buffers_than_one_call_takes_are_all_written(self, disk: Disk) -> None:
        file = disk.open("f", create=True)
        buffers = [bytes((number % 256,)) * 3 for number in range(2_500)]

        file.write(5, buffers)

        assert content(file) == bytes(5) + b"".join(buffers)
        file.close()

    def test_a_read_says_how_many_bytes_the_file_had(self, disk: Disk) -> None:
        file = disk.open("f", create=True)
        file.write(0, [b"abc"])
        target = bytearray(b"......")

        found = file.read_into(1, memoryview(target))

        assert (found, bytes(target)) == (2, b"bc....")
        assert file.read_into(3, memoryview(target)) == 0
        file.close()

    def test_what_was_just_written_is_read_without_waiting(self, disk: Disk) -> None:
        file = disk.open("f", create=True)
        file.write(0, [b"abc"])
        target = bytearray(3)

        found = file.read_into(0, memoryview(target), wait=False)

        assert (found, bytes(target)) == (3, b"abc")
        file.close()

    def test_an_allocated_file_is_zeros_and_keeps_what_it_had(self, disk: Disk) -> None:
        file = disk.open("f", create=True)
        file.write(0, [b"abc"])

        file.allocate(8192)

        assert file.size() == 8192
        assert content(file) == b"abc" + bytes(8189)
        file.close()

    def test_what_is_not_said_to_be_data_reads_as_zeros(self, disk: Disk) -> None:
        file = disk.open("f", create=True)
        file.allocate(1 << 20)
        file.write(5, [b"abc"])
        file.write(700_000, [b"de"])

        parts, at = [], 0
        while (found := file.data_from(at)) is not None:
            assert found[0] >= at
            assert found[1] > found[0]
            parts.append(found)
            at = found[1]
            file.sync()  # Whether the bytes are on the disk makes no difference.

        whole = bytearray(content(file))
        assert whole[5:8] == b"abc"
        for start, stop in parts:
            whole[start:stop] = bytes(stop - start)
        assert not any(whole)
        assert file.data_from(1 << 20) is None
        file.close()

    def test_a_part_that_is_asked_for_begins_no_earlier(self, disk: Disk) -> None:
        file = disk.open("f", create=True)
        file.write(0, [b"abcdef"])

        assert file.data_from(2) == (2, 6)
        assert file.data_from(6) is None
        file.close()

    def test_a_truncated_file_has_the_given_length(self, disk: Disk) -> None:
        file = disk.open("f", create=True)
        file.write(0, [b"abcdef"])

        file.truncate(2)

        assert (file.size(), content(file)) == (2, b"ab")
        file.close()

    def test_a_sync_succeeds_as_often_as_it_is_called(self, disk: Disk) -> None:
        file = disk.open("f", create=True)

        file.sync()
        file.write(0, [b"abc"])
        file.sync()

        assert content(file) == b"abc"
        file.close()

    def test_two_openings_see_one_file(self, disk: Disk) -> None:
        one = disk.open("f", create=True)
        other = disk.open("f")

        one.write(0, [b"abc"])

        assert content(other) == b"abc"
        one.close()
        other.close()

    def test_creating_a_file_that_exists_keeps_its_content(self, disk: Disk) -> None:
        with_content = disk.open("f", create=True)
        with_content.write(0, [b"abc"])
        with_content.close()

        again = disk.open("f", create=True)

        assert content(again) == b"abc"
        again.close()

    def test_an_absent_file_is_not_found(self, disk: Disk) -> None:
        with pytest.raises(FileNotFoundError):
            disk.open("f")

    def test_a_file_in_an_absent_directory_cannot_be_created(self, disk: Disk) -> None:
        with pytest.raises(FileNotFoundError):
            disk.open("d/f", create=True)

    def test_closing_twice_does_nothing(self, disk: Disk) -> None:
        file = disk.open("f", create=True)

        file.close()
        file.close()

        assert disk.exists("f")

    def test_directories_are_made_with_their_parents(self, disk: Disk) -> None:
        disk.make_directory("a/b/c")
        disk.make_directory("a/b/c")
        disk.open("a/b/c/f", create=True).close()

        assert disk.exists("a/b")
        assert disk.names("a/b") == ["c"]
        assert disk.names("a/b/c") == ["f"]

    def test_names_are_sorted_and_of_one_level(self, disk: Disk) -> None:
        disk.make_directory("d/z")
        for path in ("d/2", "d/10", "d/z/deep"):
            disk.open(path, create=True).close()

        assert disk.names("d") == ["10", "2", "z"]
        assert disk.names("") == ["d"]
        assert disk.names("absent") == []

    def test_a_rename_replaces_the_target(self, disk: Disk) -> None:
        for path, data in (("a", b"new"), ("b", b"old")):
            file = disk.open(path, create=True)
            file.write(0, [data])
            file.close()

        disk.rename("a", "b")
        disk.sync_directory("")

        found = disk.open("b")
        assert content(found) == b"new"
        assert disk.names("") == ["b"]
        found.close()

    def test_renaming_what_is_absent_is_not_found(self, disk: Disk) -> None:
        with pytest.raises(FileNotFoundError):
            disk.rename("a", "b")

    def test_what_is_removed_is_gone_and_removing_it_again_is_fine(self, disk: Disk) -> None:
        disk.make_directory("d")
        disk.open("d/f", create=True).close()

        for _ in range(2):
            disk.remove("d/f")
            disk.remove_directory("d")

        assert not disk.exists("d/f")
        assert not disk.exists("d")

    def test_allocating_takes_free_space(self, disk: Disk) -> None:
        before = disk.free_bytes()
        file = disk.open("f", create=True)

        file.allocate(64 << 20)

        # Others may use the same disk meanwhile, so only the order of magnitude is promised.
        assert before - disk.free_bytes() > 16 << 20
        file.close()
        disk.remove("f")

    def test_a_second_owner_is_told_who_the_first_is(self, disk: Disk) -> None:
        owner: dict[str, object] = {"pid": 4711, "started_at": "2026-01-02T03:04:05+00:00"}
        lock = disk.lock("lock", owner=owner)

        with pytest.raises(StoreLocked, match=r"4711.*2026-01-02T03:04:05") as refused:
            disk.lock("lock", owner={"pid": 1})

        assert refused.value.owner == owner
        lock.release()

    def test_a_released_lock_can_be_taken_again(self, disk: Disk) -> None:
        lock = disk.lock("lock", owner={"pid": 1})
        lock.release()

        again = disk.lock("lock", owner={"pid": 2})

        again.release()
        again.release()
