"""The chain: each entry fixes all before it, and a walk says where something is not as written."""

from datetime import UTC, datetime
from typing import Any

import pytest

from apps.audit import chain
from apps.audit.chain import BEGINNING, Head, Walk
from apps.audit.models import AuditEntry
from apps.audit.values import INTEGER_MAX, LEFT_OUT, plain

AT = datetime(2026, 11, 22, 21, 30, 0, 123_000, tzinfo=UTC)


def entries(count: int, **said: Any) -> list[AuditEntry]:
    """Return a chain of so many entries."""
    made: list[AuditEntry] = []
    for number in range(1, count + 1):
        entry = AuditEntry(
            number=number, at=AT, by="ann", door="console", act="topic.delete", kind="topic",
            name=f"orders-{number}", result="done", before={"perm": 6}, **said,
        )  # fmt: skip
        entry.previous_hash = made[-1].hash if made else BEGINNING
        entry.hash = chain.digest(entry.previous_hash, entry)
        made.append(entry)
    return made


def walked(found: list[AuditEntry], *heads: Head) -> tuple[int, int | None, str]:
    """Return how many entries are good, and where and why the walk breaks."""
    walk = Walk(heads)
    broken = next((fault for one in found if (fault := walk.step(one))), None) or walk.end()
    return walk.count, broken and broken.number, broken.detail if broken else ""


def test_the_bytes_of_an_entry_are_pinned() -> None:
    (entry,) = entries(1)

    assert chain.canonical(entry).decode() == (
        '{"act":"topic.delete","address":"","after":null,"agent":"","at_ms":1795383000123,'
        '"before":{"perm":6},"by":"ann","code":"","count":1,"detail":"","door":"console",'
        '"follows":null,"kind":"topic","name":"orders-1","number":1,"reason":"",'
        '"request_id":"","result":"done","version":1}'
    )
    assert entry.hash == "d027c85ad7bf5e8cd6f721d87d1ac655179b4054c3c9b0c83d5d11839bab2e31"


def test_a_chain_as_it_was_written_is_good() -> None:
    found = entries(5)

    assert walked(found, Head(number=3, hash=found[2].hash)) == (5, None, "")


@pytest.mark.parametrize(
    ("column", "value"),
    [("by", "eve"), ("name", "other"), ("before", {"perm": 4}), ("result", "refused"),
     ("reason", "none"), ("address", "::1"), ("at", AT.replace(second=1)), ("count", 2)],
)  # fmt: skip
def test_a_changed_value_is_found_at_its_entry(column: str, value: object) -> None:
    found = entries(5)

    setattr(found[2], column, value)

    assert walked(found) == (2, 3, "was changed: its digest is not of what it says")


def test_an_entry_taken_out_is_found_where_it_was() -> None:
    found = entries(5)

    del found[1:3]

    assert walked(found) == (1, 2, "missing: entries 2 to 3")


def test_an_entry_changed_together_with_its_digest_breaks_the_next() -> None:
    found = entries(5)

    found[2].by = "eve"
    found[2].hash = chain.digest(found[2].previous_hash, found[2])

    assert walked(found) == (3, 4, "is not chained to the entry before it")


def test_a_chain_written_anew_is_found_by_a_head_that_was_kept() -> None:
    kept = Head(number=5, hash=entries(5)[4].hash)
    anew = entries(5, reason="another")

    assert walked(anew) == (5, None, "")
    assert walked(anew, kept) == (
        4, 5, "is not the one that was kept outside: it was rewritten",
    )  # fmt: skip


def test_an_end_that_was_cut_off_is_found_by_a_head_that_was_kept() -> None:
    found = entries(5)
    kept = Head(number=5, hash=found[4].hash)

    assert walked(found[:3]) == (3, None, "")
    assert walked(found[:3], kept) == (3, 4, "missing: the end; there was an entry 5")
    assert walked([], kept) == (0, 1, "missing: the end; there was an entry 5")


def test_what_is_kept_of_an_object_is_plain_and_bounded_and_has_no_secret() -> None:
    assert plain({"a": 1.0, "b": 0.5, "c": (1, 2), "d": {3}, "at": AT}) == {
        "a": 1, "b": "0.5", "c": [1, 2], "d": [3], "at": "2026-11-22T21:30:00.123Z",
    }  # fmt: skip
    assert plain({"Password": "x", "api_token": "x", "body": b"", "n": {"secret": 1}}) == {
        "Password": LEFT_OUT, "api_token": LEFT_OUT, "body": LEFT_OUT, "n": {"secret": LEFT_OUT},
    }  # fmt: skip
    assert plain(INTEGER_MAX) == str(INTEGER_MAX)
    assert plain("a\0b\ud800") == "a\N{REPLACEMENT CHARACTER}b?"
    assert len(plain("x" * 5_000)) == 1_000
    assert plain(list(range(300)))[-1] == "and 100 more"
    with pytest.raises(TypeError):
        plain(object())
