"""Records out of the files: the same bytes the engine itself reads, or told as lost."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.engine.codec.batch import starts_of
from apps.engine.codec.columns import PropertyColumns, body_spans, fixed_fields, native
from apps.engine.codec.properties import decode_properties, encode_properties
from apps.engine.codec.record import decode_record, encode_record
from apps.engine.codec.scan import property_sections
from apps.engine.failpoints import Failpoints
from apps.engine.files.posix import PosixDisk
from apps.engine.local import LocalEngine
from apps.engine.log.retained import Retained, store_retained
from apps.engine.log.tail import Frame, FrameReader
from apps.engine.offline.reading import read
from apps.engine.offline.slices import RecordBlock
from apps.engine.offline.view import StoreView
from apps.engine.types import AckMode
from tests.engine.offline.stores import CONFIG, a_batch, publish, pulled, send, written


def bytes_of(block: RecordBlock) -> bytes:
    spans = zip(block.starts.tolist(), (block.starts + block.sizes).tolist(), strict=True)
    return b"".join(bytes(block.payload[start:stop]) for start, stop in spans)


def records(
    view: StoreView, topic: str, queue: int, start: int = 0, stop: int | None = None
) -> tuple[bytes, list[tuple[int, int, str]]]:
    """Return the records of a range as they lie, and what was told as lost."""
    lost: list[tuple[int, int, str]] = []
    end = view.extent(topic, queue).max_offset if stop is None else stop
    wanted = view.cut(topic, queue, start, end)
    blocks = read(view.store, wanted, rows_max=50, on_loss=lambda *found: lost.append(found))
    return b"".join(map(bytes_of, blocks)), lost


def test_every_record_is_the_one_the_engine_reads(tmp_path: Path) -> None:
    expected = {}

    async def work(engine: LocalEngine) -> None:
        for number in range(150):
            queue = number % 2
            # Long bodies, so that frames meet the ends of segments.
            bodies = [b"%06d" % number * 1_500, b"", b"%d" % number]
            await send(engine, "orders", queue, *bodies, ack=AckMode.ASYNC, TAGS="t")
        await send(engine, "payments", 0, b"alone", ack=AckMode.SYNC)
        for key in (("orders", 0), ("orders", 1), ("payments", 0)):
            expected[key] = await pulled(engine, *key)

    view = StoreView(written(tmp_path, work))

    assert len(list((tmp_path / "commitlog").iterdir())) >= 2
    assert len(list((tmp_path / "consumequeue" / "orders" / "0").iterdir())) > 1
    for key, payload in expected.items():
        assert records(view, *key) == (payload, [])


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    batches=st.lists(st.tuples(st.integers(0, 1), st.integers(1, 9)), min_size=1, max_size=12),
    checkpoint=st.integers(0, 12),
    cut=st.tuples(st.integers(0, 40), st.integers(0, 40)),
)
def test_any_range_is_what_the_engine_has_there(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[tuple[int, int]],
    checkpoint: int,
    cut: tuple[int, int],
) -> None:
    path = tmp_path_factory.mktemp("store")
    found: list[tuple[int, tuple[bytes, list[tuple[int, int, str]]]]] = []
    expected: list[bytes] = []

    async def work(engine: LocalEngine) -> None:
        for number, (queue, count) in enumerate(batches):
            if number == checkpoint:
                await engine._host.checkpoint()
            bodies = [b"%d-%d" % (number, one) for one in range(count)]
            await send(engine, "orders", queue, *bodies)
        # Its frame proves that the others were synced.
        await send(engine, "payments", 0, b"", ack=AckMode.ASYNC)
        view = StoreView(path)
        for queue in (0, 1):
            end = view.extent("orders", queue).max_offset
            start, stop = sorted(min(border, end) for border in cut)
            found.append((queue, records(view, "orders", queue, start, stop)))
            payload = await pulled(engine, "orders", queue)
            sizes = []
            at = 0
            while at < len(payload):
                sizes.append(decode_record(payload, at).size_bytes)
                at += sizes[-1]
            borders = np.concatenate(([0], np.cumsum(sizes))).astype(int)
            assert end == len(sizes)
            expected.append(payload[borders[start] : borders[stop]])

    written(path, work)

    assert [one for _, one in found] == [(payload, []) for payload in expected]


async def _three(engine: LocalEngine) -> None:
    for body in (b"first", b"second", b"third"):
        await send(engine, "orders", 0, body * 100, b"%b-more" % body)


def damage(path: Path, text: bytes, *, by: bytes = b"X") -> None:
    (segment,) = (path / "commitlog").iterdir()
    at = segment.read_bytes().index(text)
    with segment.open("r+b") as file:
        file.seek(at)
        file.write(by)


def test_a_record_with_a_bad_body_is_told_as_lost_and_its_neighbours_are_read(
    tmp_path: Path,
) -> None:
    view = StoreView(written(tmp_path, _three))
    whole, _ = records(view, "orders", 0)
    damage(tmp_path, b"secondsecond")

    found, lost = records(view, "orders", 0)

    assert [(first, last) for first, last, _ in lost] == [(2, 2)]
    assert b"second-more" in found
    assert len(found) < len(whole)


def test_a_frame_whose_header_is_damaged_is_told_as_lost_as_a_whole(tmp_path: Path) -> None:
    written(tmp_path, _three)
    (segment,) = (tmp_path / "commitlog").iterdir()
    data = segment.read_bytes()
    header = data.index(b"rmq_sys_frame", data.index(b"first-more"))
    damage(tmp_path, data[header : header + 40])

    found, lost = records(StoreView(tmp_path), "orders", 0)

    assert [(first, last) for first, last, _ in lost] == [(2, 3)]
    assert b"first-more" in found
    assert b"third-more" in found
    assert b"second-more" not in found


def test_entries_that_were_removed_meanwhile_are_told_as_lost(tmp_path: Path) -> None:
    async def work(engine: LocalEngine) -> None:
        for ten in range(10):
            await send(engine, "orders", 0, *[b"%d" % (10 * ten + one) for one in range(10)])

    view = StoreView(written(tmp_path, work))
    files = sorted((tmp_path / "consumequeue" / "orders" / "0").iterdir())
    files[0].unlink()

    _, lost = records(view, "orders", 0)

    assert [(first, last) for first, last, _ in lost] == [(0, 59)]


@given(
    st.lists(
        st.tuples(
            st.binary(max_size=40),
            st.dictionaries(
                st.sampled_from(
                    ["TAGS", "KEYS", "UNIQ_KEY", "PRODUCER_SEQ", "PRODUCER_ID", "a", "é"]
                ),
                st.text(
                    alphabet=st.characters(
                        exclude_characters="\x01\x02", exclude_categories=["Cs"]
                    ),
                    max_size=12,
                ),
            ),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_columns_say_what_records_say(messages: list[tuple[bytes, dict[str, str]]]) -> None:
    packed = [
        encode_record(topic=b"t", queue=3, body=body, flag=-7, properties=encode_properties(given))
        for body, given in messages
    ]
    payload = b"".join(packed)
    sizes = np.array([len(one) for one in packed], dtype=np.int32)
    starts = starts_of(sizes)

    fixed = fixed_fields(payload, starts)
    bodies = body_spans(fixed, starts)
    columns = PropertyColumns(property_sections(payload, starts, sizes))

    expected = [decode_record(payload, start) for start in starts.tolist()]
    assert native(fixed["flag"]).tolist() == [one.flag for one in expected]
    assert native(fixed["queue"]).tolist() == [3] * len(expected)
    spans = zip(bodies.starts.tolist(), bodies.lengths.tolist(), strict=True)
    assert [payload[at : at + size] for at, size in spans] == [one.body for one in expected]
    data = columns.data.tobytes()
    for name in ("TAGS", "UNIQ_KEY", "PRODUCER_SEQ", "PRODUCER_ID", "é", "absent"):
        values = columns.values(name)
        found = [
            None if size < 0 else data[at : at + size].decode()
            for at, size in zip(values.starts.tolist(), values.lengths.tolist(), strict=True)
        ]
        assert found == [one.properties.get(name) for one in expected]
        assert (np.diff(values.starts) >= 0).all()
    pairs = columns.pairs()
    assert pairs.counts.tolist() == [
        len(decode_properties(encode_properties(p))) for _, p in messages
    ]


def test_a_front_that_retention_moved_is_seen_at_the_next_look(tmp_path: Path) -> None:
    async def work(engine: LocalEngine) -> None:
        for number in range(150):
            await send(engine, "orders", 0, b"%06d" % number * 3_000, ack=AckMode.ASYNC)

    view = StoreView(written(tmp_path, work))
    first, second, *_ = sorted((tmp_path / "commitlog").iterdir())
    begin = next(
        offset
        for offset in range(150)
        if view.log_offset(view.cut("orders", 0, offset, offset + 1)) >= int(second.name)
    )

    retained = Retained(log_start=int(second.name), queues=(("orders", 0, begin),))
    store_retained(PosixDisk(tmp_path), retained, failpoints=Failpoints())
    first.unlink()
    view.refresh()

    assert 0 < begin < view.extent("orders", 0).max_offset == 150
    assert view.extent("orders", 0).min_offset == begin
    _, lost = records(view, "orders", 0)
    assert [(one, last) for one, last, _ in lost] == [(0, begin - 1)]
    assert records(view, "orders", 0, begin)[1] == []


async def test_a_long_end_of_the_log_is_read_as_the_engine_reads_it(tmp_path: Path) -> None:
    engine = await LocalEngine.open(tmp_path, CONFIG)
    try:
        publish(engine)
        for number in range(120):
            # More than is read at once, and no checkpoint knows of it.
            bodies = [b"%06d" % number * 5_000, b"%06d" % number * 4_000]
            await send(engine, "orders", number % 2, *bodies, ack=AckMode.ASYNC)
        await send(engine, "payments", 0, b"synced", ack=AckMode.SYNC)
        await send(engine, "payments", 0, b"proves it", ack=AckMode.ASYNC)

        view = StoreView(tmp_path)
        found = {queue: records(view, "orders", queue) for queue in (0, 1)}
        expected = {queue: (await pulled(engine, "orders", queue), []) for queue in (0, 1)}
    finally:
        await engine.close()

    assert len(list((tmp_path / "commitlog").iterdir())) >= 2
    assert found == expected


def test_frames_of_single_records_are_looked_at_a_few_times_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 300
    looked_at: list[int] = []
    following = FrameReader.next

    def counted(reader: FrameReader) -> Frame:
        looked_at.append(reader.log_offset)
        return following(reader)

    async def work(engine: LocalEngine) -> None:
        for number in range(count):
            # Both queues share each frame, so where it begins has to be looked for.
            batches = [a_batch("orders", queue, [b"%d" % number]) for queue in (0, 1)]
            await engine.append(batches, ack=AckMode.ASYNC)
        await send(engine, "payments", 0, b"last")

    view = StoreView(written(tmp_path, work))
    wanted = view.cut("orders", 0, 0, count)
    with monkeypatch.context() as patch:
        patch.setattr(FrameReader, "next", counted)
        blocks = list(read(view.store, wanted, rows_max=50, on_loss=lambda *_: None))

    assert sum(len(block.sizes) for block in blocks) == count
    assert count <= len(looked_at) <= 3 * count
