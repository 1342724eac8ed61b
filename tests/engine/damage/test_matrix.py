"""Every kind of file, damaged in every way: made anew, put aside or refused, and never believed.

Of each harm the test proves that it took place. Three ends are allowed: the store opens and every
message is there, as it was; it opens and those that are not are counted as unreadable; it refuses.
Nothing else: no message that was never sent, none twice, none that is gone without a count.
"""

import random
from collections import Counter

import pytest

from apps.engine.broker.core import Broker
from apps.engine.errors import Damaged, UnknownFormat
from apps.engine.testing.simdisk import SimulatedDisk
from tests.engine.damage.stores import (
    DELAYED,
    GROUP,
    HOUR_MS,
    Everything,
    filled,
    image,
    opened,
    read_all,
)

# Kinds of files: what their paths begin with, and whether a store may be refused for them.
KINDS = {
    "log": ("commitlog/", False),
    "queue": ("consumequeue/", False),
    "queues": ("checkpoint/consumequeue", False),
    "state": ("checkpoint/consumers", False),
    "manifest": ("timer/manifest", False),
    "run": ("timer/0", False),
    "catalog": ("config/catalog", False),
    "checkpoint": ("checkpoint/log", True),
    "identity": ("store", True),
    "epoch": ("epoch", True),
}
HARMS = ("flip", "flips", "cut", "empty", "one", "stale", "gone")
STALE_BYTES = 4096


@pytest.fixture(scope="module")
def stores() -> tuple[SimulatedDisk, SimulatedDisk]:
    """Return a store stopped in order, and an older copy of it, from which stale blocks come."""
    disk = filled(messages=60)
    older = image(disk)
    broker = opened(disk)
    broker.close()
    return disk, older


@pytest.fixture(scope="module")
def whole(stores: tuple[SimulatedDisk, SimulatedDisk]) -> Everything:
    found = read_all(opened(image(stores[0])))
    assert len(found.records) >= 60
    return found


def harm(
    disk: SimulatedDisk, older: SimulatedDisk, path: str, how: str, rng: random.Random
) -> None:
    """Damage one file; what is drawn comes from `rng`."""
    before = disk.content()[path]
    size = len(before)
    if how in ("flip", "flips"):
        for _ in range(1 if how == "flip" else 2):
            disk.flip(path, rng.randrange(_used(before)), 1 << rng.randrange(8))
    elif how == "gone":
        disk.remove(path)
    elif how == "stale":
        start = rng.randrange(_used(before)) // STALE_BYTES * STALE_BYTES
        while not any(before[start : start + STALE_BYTES]):
            start -= STALE_BYTES  # A hole is the same in both.
        old = older.content().get(path, b"")[start : start + STALE_BYTES]
        if not old or old == before[start : start + STALE_BYTES]:
            old = bytes(min(STALE_BYTES, size - start))  # As it was before it was written.
        disk.open(path).write(start, [old])
    else:
        # Zipf: most cuts take little, some nearly all.
        taken = max(1, int(1 / (rng.random() + 1 / size)))
        kept = {"empty": 0, "one": 1, "cut": size - min(size, taken)}
        disk.open(path).truncate(kept[how])
    assert disk.content().get(path) != before, "the fault did not fire"


def _used(data: bytes) -> int:
    return max(1, len(data.rstrip(b"\0")))


def outcome(disk: SimulatedDisk, whole: Everything) -> str:
    """Open and read everything; return which of the allowed ends it came to."""
    kept = {path for path in disk.content() if path.startswith("commitlog/")}
    try:
        broker = opened(disk)
    except (Damaged, UnknownFormat):
        return "refused"
    if not broker.catalog.snapshot.topics:
        # The database publishes it anew.
        broker.publish_catalog(opened(image(ORIGINAL[0])).catalog.snapshot)
    found = read_all(broker)
    assert found.records.items() <= whole.records.items(), "something was served that was not sent"
    missing = Counter(place[:2] for place in whole.records.keys() - found.records.keys())
    assert missing == Counter({key: n for key, n in found.unreadable.items() if n})
    assert kept <= set(disk.content()), "a segment was deleted"
    delivered = _delayed(broker)
    lost_parcels = len(broker.log.quarantine.lost("rmq_sys_wheel_timer", 0))
    assert delivered == DELAYED or lost_parcels
    assert GROUP in {row.group for row in broker.offsets.progress(None)}
    return "unreadable" if missing else "whole"


def _delayed(broker: Broker) -> int:
    """Let the delayed messages fall due, and return how many came."""
    broker.clock.advance(2 * HOUR_MS)
    before = broker.delaydelivery.delivered
    while broker.damage.guarded(lambda: broker.delaydelivery.deliver(wait=True)):
        pass
    return broker.delaydelivery.delivered - before


ORIGINAL: list[SimulatedDisk] = []


def run(
    stores: tuple[SimulatedDisk, SimulatedDisk], whole: Everything, kind: str, how: str, seed: int
) -> str:
    ORIGINAL[:] = [stores[0]]
    prefix, may_refuse = KINDS[kind]
    rng = random.Random(f"{kind}/{how}/{seed}")
    disk = image(stores[0])
    paths = sorted(path for path in disk.content() if path.startswith(prefix))
    path = rng.choice([one for one in paths if kind != "identity" or one == "store"])
    print("seed", kind, how, seed, "file", path)
    harm(disk, stores[1], path, how, rng)
    end = outcome(disk, whole)
    if how == "gone" and kind == "checkpoint":
        return end
    is_cut_log = kind == "log" and how in ("cut", "empty", "one", "gone")
    assert end != "refused" or may_refuse or is_cut_log
    if is_cut_log or kind in ("identity", "epoch"):
        assert end == "refused"
    if kind not in ("log", "identity", "epoch", "checkpoint"):
        assert end == "whole"
    return end


@pytest.mark.parametrize("how", HARMS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_damage_is_believed(
    stores: tuple[SimulatedDisk, SimulatedDisk], whole: Everything, kind: str, how: str
) -> None:
    run(stores, whole, kind, how, seed=1)


@pytest.mark.crash
@pytest.mark.parametrize("how", HARMS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_damage_is_believed_for_many_seeds(
    stores: tuple[SimulatedDisk, SimulatedDisk], whole: Everything, kind: str, how: str
) -> None:
    ends = Counter(run(stores, whole, kind, how, seed) for seed in range(2, 12))

    print(ends)
    assert ends.total() == 10


def test_a_reader_that_believes_everything_would_fail_this(
    stores: tuple[SimulatedDisk, SimulatedDisk],
    whole: Everything,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The canary: without the checks of frames and bodies wrong messages are served."""
    monkeypatch.setattr("apps.engine.log.proof.Proof.check", lambda *_args, **_named: None)
    monkeypatch.setattr(
        "apps.engine.log.marks.Marks.has_bodies",
        lambda _marks, _payload, log_offsets, _sizes: log_offsets >= 0,
    )

    def many() -> None:
        for seed in range(30):
            run(stores, whole, "log", "flip", seed)

    with pytest.raises(AssertionError, match="was not sent"):
        many()
