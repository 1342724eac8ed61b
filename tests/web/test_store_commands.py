"""verifystore, dumplog and rebuild as commands: what they print, and how they end."""

import asyncio
import json
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from apps.bridge.exits import Exit
from apps.bridge.storecommands import EXITS
from apps.engine.codec.record import encode_record
from apps.engine.config import EngineConfig
from apps.engine.local.engine import LocalEngine
from apps.engine.types import AckMode, CatalogSnapshot, RecordBatch, TopicSpec
from apps.engine.verify.findings import Kind

CONFIG = EngineConfig(
    segment_bytes=65_536, batch_bytes_max=16_384, body_bytes_max=8_192, reserve_bytes=0
)


def batch(body: bytes) -> RecordBatch:
    data = encode_record(topic=b"orders", queue=0, body=body)
    sizes = np.array([len(data)], dtype=np.int32)
    return RecordBatch(topic="orders", queue=0, payload=bytearray(data), sizes=sizes)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a stopped store with three messages."""
    path = tmp_path / "store"

    async def fill() -> None:
        engine = await LocalEngine.open(path, CONFIG)
        topics = {"orders": TopicSpec(name="orders", queue_count=1)}
        engine.publish_catalog(CatalogSnapshot(version=1, topics=topics))
        for number in range(3):
            await engine.append([batch(b"body %d\x1b[2J" % number)], ack=AckMode.SYNC)
        await engine.close()

    asyncio.run(fill())
    return path


def output(*arguments: str) -> str:
    target = StringIO()
    call_command(*arguments, stdout=target)
    return target.getvalue()


def files(path: Path) -> dict[str, bytes]:
    found = (one for one in sorted(path.rglob("*")) if one.is_file())
    return {str(one.relative_to(path)): one.read_bytes() for one in found}


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def test_every_kind_of_damage_has_an_exit_code_of_its_own() -> None:
    assert set(EXITS) == set(Kind)
    assert len(set(EXITS.values())) == len(Kind)


def test_an_intact_store_is_verified_and_not_touched(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(store)

    text = output("verifystore", str(store))

    assert "nothing is damaged" in text
    assert "log\n" in capsys.readouterr().err
    assert files(store) == before


def test_damage_is_told_as_json_and_by_the_exit_code(store: Path) -> None:
    (segment,) = (store / "commitlog").iterdir()
    flip(segment, segment.read_bytes().index(b"body 1"))
    target = StringIO()

    with pytest.raises(SystemExit) as ended:
        call_command("verifystore", str(store), "--json", "--quiet", stdout=target)

    assert ended.value.code == Exit.DAMAGED_LOG
    summary = json.loads(target.getvalue())
    assert [one["kind"] for one in summary["findings"]] == ["log"]
    assert "1 messages" in summary["findings"][0]["detail"]


def test_a_running_broker_is_verified_up_to_its_checkpoint(store: Path) -> None:
    async def run() -> dict[str, object]:
        engine = await LocalEngine.open(store, CONFIG)
        await engine.append([batch(b"behind the checkpoint")], ack=AckMode.SYNC)
        text = await asyncio.to_thread(output, "verifystore", str(store), "--json", "--quiet")
        ends: dict[str, object] = {**json.loads(text), "end": engine.status().written_offset}
        await engine.close()
        return ends

    summary = asyncio.run(run())

    assert summary["is_running"] is True
    assert summary["findings"] == []
    assert 0 < int(str(summary["verified_to"])) < int(str(summary["end"]))


def test_without_a_store_there_is_nothing_to_look_at(tmp_path: Path) -> None:
    for command in ("verifystore", "dumplog"):
        with pytest.raises(CommandError) as refused:
            call_command(command, str(tmp_path / "nowhere"))

        assert refused.value.returncode == Exit.UNOPENABLE
    assert not (tmp_path / "nowhere").exists()


def test_a_dump_is_one_safe_line_a_record(store: Path) -> None:
    text = output("dumplog", str(store), "--topic", "orders")
    rows = [json.loads(line) for line in output("dumplog", str(store), "--json").splitlines()]

    assert text.count("\n") == 3
    assert all(line.isprintable() for line in text.splitlines())
    assert [row["body"] for row in rows if row.get("topic") == "orders"] == [
        f"body {number}\\x1b[2J" for number in range(3)
    ]
    assert len(output("dumplog", str(store), "--limit", "2").splitlines()) == 2


def test_a_rebuild_needs_a_stopped_store_and_a_known_part(store: Path) -> None:
    assert "made anew: index, queues, state, timers" in output(
        "rebuild", "all", "--path", str(store)
    )
    for wrong in (("rebuild", "everything", "--path", str(store)), ("rebuild",)):
        with pytest.raises(CommandError) as refused:
            call_command(*wrong)
        assert refused.value.returncode == Exit.REFUSED

    async def run() -> int:
        engine = await LocalEngine.open(store, CONFIG)
        try:
            await asyncio.to_thread(output, "rebuild", "all", "--path", str(store))
        except CommandError as error:
            return error.returncode
        finally:
            await engine.close()
        return 0

    assert asyncio.run(run()) == Exit.HELD
    assert "nothing is damaged" in output("verifystore", str(store), "--quiet")


def test_a_lost_segment_is_accepted_by_command(store: Path) -> None:
    (segment,) = (store / "commitlog").iterdir()
    segment.unlink()

    text = output("rebuild", "--accept-loss", "--path", str(store))

    assert "1 damaged places" in text

    async def run() -> tuple[int, int]:
        engine = await LocalEngine.open(store, CONFIG)
        status = engine.status()
        await engine.close()
        return status.quarantined_ranges, status.unreadable_messages

    assert asyncio.run(run()) == (1, 3)
