"""What anybody may write into a message: no page runs it, is led by it, or dies of it."""

import gzip
import json
import random
import re
import tracemalloc
import zlib
from functools import partial
from html.parser import HTMLParser
from typing import Any

import pytest
from django.test import Client

from apps.console.templatetags.visible import in_line, visible
from apps.engine.codec.layout import TRACE_TOPIC
from apps.engine.types import ReceiveRequest
from apps.messages import bodies
from apps.messages.bodies import Packing, Trouble, View
from tests.web.console.fakes import POLYGLOT
from tests.web.messages.conftest import Log

pytestmark = pytest.mark.django_db

ANSI = "\x1b[31mred\x1b]0;title\x07"
LINES = "one\r\nSet-Cookie: a=b\r\n\r\ntwo"
TURNED = "\u202egnp.exe\u2066\u200b"
HOSTILE = f"{POLYGLOT}{ANSI}{LINES}{TURNED}"
# A key is a word.
WORD = re.sub(r"\s", "_", HOSTILE)


class Markup(HTMLParser):
    """Collects what could run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.shown = ""
        self._is_in_field = False
        self.feed(text)

    def handle_endtag(self, tag: str) -> None:
        self._is_in_field &= tag != "textarea"

    def handle_data(self, data: str) -> None:
        self.shown += "" if self._is_in_field else data

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._is_in_field |= tag == "textarea"
        self.shown += "".join(value or "" for name, value in attrs if name in ("title", "alt"))
        if tag == "script":
            # Our own modules are files of our own.
            assert dict(attrs).get("src", "").startswith("/static/"), attrs
        self.attributes += attrs


def look(browser: Client, path: str, *, status: int = 200) -> str:
    """Look at a page and check that nothing of it would run."""
    answer = browser.get(path)
    assert answer.status_code == status, (path, answer.status_code)
    text = answer.content.decode()
    markup = Markup(text)
    names = {name for name, _ in markup.attributes}
    assert not {name for name in names if name.startswith("on")}, path
    assert "style" not in names, path
    assert not [
        v
        for n, v in markup.attributes
        if n in ("href", "src", "action") and v and not v.startswith(("/", "?", "#"))
    ], path
    assert "alert(1)" not in "".join(re.findall(r"<script.*?</script>", text, re.DOTALL))
    # A field gives back what was entered as it was; all else is shown so that it leads nobody.
    for unseen in ("\x1b", "\u202e", "\u2066"):
        assert unseen not in markup.shown, path
    return text


def fill(log: Log) -> str:
    """Put hostile text into every field a client writes, and into what is told of it."""
    message_id = log.send(
        HOSTILE.encode(),
        UNIQ_KEY=WORD,
        KEYS=f"{WORD} plain",
        TAGS=HOSTILE,
        __SHARDINGKEY=HOSTILE,
        PGROUP=HOSTILE,
        TIMER_OUT_MS="9" * 30,
        RETRY_HISTORY=json.dumps([[1, 1, HOSTILE, HOSTILE], "x", [1]]),
        **{HOSTILE: HOSTILE},
    )
    log.send(json.dumps({HOSTILE: [HOSTILE, 1e400]}).encode(), UNIQ_KEY="json")
    log.send(b"\xff\xfe" + HOSTILE.encode(), UNIQ_KEY="bytes")
    log.fail(level=-1, reason=HOSTILE)
    hostile = ReceiveRequest(
        group="audit", topics=("orders",), client_id=POLYGLOT, software=HOSTILE, address=POLYGLOT
    )
    log.run(log.engine.receive(hostile))
    record = {
        "topic": "orders", "queue": 0, "offset": 0, "id": message_id, "attempt": 1,
        "born_ms": 1, "stored_ms": 1, "started_ms": 1, "ended_ms": 253_402_300_799_999,
        "result": HOSTILE, "error": f"{HOSTILE}\ud800",
    }  # fmt: skip
    document = {"v": 1, "group": HOSTILE, "client": HOSTILE, "mode": "x", "records": [record]}
    log.append(json.dumps(document).encode(), topic=TRACE_TOPIC, KEYS=WORD)
    log.post()
    return message_id


def test_no_page_runs_or_is_led_by_what_a_client_wrote(log: Log, browser: Client) -> None:
    from urllib.parse import quote

    message_id = fill(log)
    name = quote(message_id, safe="")
    pages = [
        f"/messages?q={name}&as=id",
        f"/messages?q={quote(WORD, safe='')}&as=key&topic=orders",
        f"/messages?topic={name}&tag={name}&key={name}&filter={name}&from={name}",
        f"/messages?q={name}&as={name}&cursor={name}",
        "/topics/orders/messages",
        "/topics/%25DLQ%25billing/messages",
        "/topics/rmq_sys_trace/messages",
        "/topics/orders/produce?like=0:0",
        "/topics/orders/produce?like=0:2",
        f"/topics/orders/produced?at=0:0-2&waiting=1&id={name}&transaction={name}",
        f"/messages/{name}/trace?topic=orders",
        "/topics/%25DLQ%25billing/queues/0/messages/0",
        "/topics/rmq_sys_trace/queues/0/messages/0",
        "/topics/orders/",
        "/topics/orders/consumers",
        "/topics/new",
        "/store",
    ]
    for offset in range(3):
        place = f"/topics/orders/queues/0/messages/{offset}"
        pages += [place, *(f"{place}?as={view.value}" for view in View)]

    shown = [look(browser, page) for page in pages]
    unknown = [
        look(browser, f"/messages/{name}x", status=404),
        look(browser, f"/messages/{name}x/trace", status=404),
        look(browser, f"/topics/{quote(POLYGLOT, safe='')}/queues/0/messages/0", status=404),
        look(browser, f"/topics/{quote(POLYGLOT, safe='')}/produce", status=404),
    ]

    whole = shown[pages.index("/topics/orders/queues/0/messages/0?as=text")]
    # The canary: the text was there, and is shown as what it is.
    assert "&lt;script&gt;alert(1)" in shown[0]
    assert "\u241b[31mred" in whole
    assert "&lt;U+202E&gt;" in whole
    assert all("&lt;script&gt;" in text for text in unknown[:2])


def test_a_refused_form_comes_back_with_what_was_entered_and_runs_nothing(
    log: Log, browser: Client
) -> None:
    entered = dict.fromkeys(
        ("body", "keys", "tag", "properties", "sharding_key", "queue", "delay_value"), HOSTILE
    )
    answer = browser.post("/topics/orders/produce", entered)

    assert answer.status_code == 400
    markup = Markup(answer.content.decode())
    assert "img" not in markup.tags[markup.tags.index("main") :]
    assert not [name for name, _ in markup.attributes if name.startswith("on")]


def test_headers_cannot_be_written_by_a_message_or_an_address(log: Log, browser: Client) -> None:
    log.send(LINES.encode(), UNIQ_KEY="a\r\nSet-Cookie: a=b".replace("\r\n", "_"))

    raw = browser.get("/topics/orders/queues/0/messages/0/raw")
    lead = browser.get("/messages/x%0d%0aSet-Cookie:%20a=b")

    assert "Set-Cookie" not in raw.headers
    assert "Set-Cookie" not in lead.headers


def test_files_hold_no_formula_and_no_line_of_their_own(log: Log, browser: Client) -> None:
    import asyncio
    import csv
    import io

    fill(log)
    answer: Any = browser.get("/messages/export?format=csv&topic=orders")

    async def gathered() -> str:
        return b"".join([piece async for piece in answer.streaming_content]).decode()

    rows = list(csv.reader(io.StringIO(asyncio.run(gathered()), newline="")))

    assert len(rows) == 4
    assert {len(row) for row in rows} == {14}
    assert not [cell for row in rows for cell in row if cell.startswith(("=", "+", "-", "@"))]


def test_the_largest_body_is_cut_and_its_size_told(log: Log, browser: Client) -> None:
    size = 4 * 1024 * 1024
    log.send(b"x" * size)

    page = look(browser, "/topics/orders/queues/0/messages/0")
    produce = look(browser, "/topics/orders/produce?like=0:0")
    newest = look(browser, "/topics/orders/messages")
    raw = browser.get("/topics/orders/queues/0/messages/0/raw")

    assert len(page) < 200_000
    assert "4.0 MiB" in page
    assert "Only the begin is shown." in page
    assert len(produce) < 50_000
    assert len(newest) < 50_000
    assert len(raw.content) == size


@pytest.mark.parametrize("pack", [zlib.compress, gzip.compress])
def test_a_bomb_is_stopped_and_said(log: Log, browser: Client, pack: Any) -> None:
    bomb = pack(bytes(1024 * 1024 * 1024 // 8))
    assert len(bomb) < 300_000
    log.send(bomb)
    tracemalloc.start()

    page = look(browser, "/topics/orders/queues/0/messages/0")
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert "the rest is not shown" in page or "inflating was stopped there" in page
    assert peak_bytes < 96 * 1024 * 1024


@pytest.mark.parametrize("pack", [zlib.compress, partial(gzip.compress, mtime=0)])
def test_compressed_bodies_are_inflated_and_given_as_they_are(
    log: Log, browser: Client, pack: Any
) -> None:
    text = b'{"order": 4711, "lines": [1, 2, 3]}' * 20
    log.send(pack(text))
    place = "/topics/orders/queues/0/messages/0"

    page = look(browser, place)
    stored = look(browser, f"{place}?stored=on")

    assert "4711" in page
    assert "4711" not in stored
    assert browser.get(f"{place}/raw").content == pack(text)
    assert browser.get(f"{place}/raw?inflated").content == text


@pytest.mark.parametrize(
    ("body", "packing", "trouble"),
    [
        (b"plain", Packing.NONE, Trouble.NONE),
        (zlib.compress(b"x"), Packing.ZLIB, Trouble.NONE),
        (gzip.compress(b"x", mtime=0), Packing.GZIP, Trouble.NONE),
        (gzip.compress(b"x" * 99, mtime=0)[:-9], Packing.GZIP, Trouble.DAMAGED),
        (b"x\x9cis no zlib", Packing.NONE, Trouble.NONE),
        (b"\x28\xb5\x2f\xfd....", Packing.ZSTD, Trouble.NOT_SUPPORTED),
        (b"\x04\x22\x4d\x18....", Packing.LZ4, Trouble.NOT_SUPPORTED),
        (zlib.compress(bytes(10_000_000)), Packing.ZLIB, Trouble.BOMB),
        (b"", Packing.NONE, Trouble.NONE),
    ],
)
def test_how_a_body_is_packed_is_told_by_its_begin(
    body: bytes, packing: Packing, trouble: Trouble
) -> None:
    found = bodies.opened(body)

    assert (found.packing, found.trouble) == (packing, trouble)


def test_what_inflates_to_more_than_a_page_may_hold_is_cut() -> None:
    chance = random.Random(5)
    long = bytes(chance.choices(range(97, 105), k=9 * 1024 * 1024))

    found = bodies.opened(zlib.compress(long))

    assert found.trouble is Trouble.TOO_LONG
    assert found.content == long[: bodies.INFLATED_BYTES_MAX]


@pytest.mark.parametrize("seed", range(8))
def test_any_bytes_can_be_shown_in_any_way(seed: int) -> None:
    print("seed", seed)
    chance = random.Random(seed)
    begins = [b"", b"\x78\x9c", b"\x1f\x8b\x08", b"{", b"[[", b"\x28\xb5\x2f\xfd"]
    for _ in range(300):
        body = chance.choice(begins) + chance.randbytes(chance.randrange(200))
        for view in (None, *View):
            found = bodies.shown(bodies.opened(body).content, view)
            assert found.view in found.views


def test_numbers_of_json_stay_as_they_were_written() -> None:
    text = b'{"a":1.10,"b":123456789012345678901234567890,"c":1e400,"a":2}'

    found = bodies.shown(text)

    assert found.view is View.JSON
    for part in ("1.10", "123456789012345678901234567890", "1e400", '"a": 2'):
        assert part in found.text


@pytest.mark.parametrize("body", [b"{" * 100_000, b"[" * 500_000, b'{"a":', b"[1,]"])
def test_what_is_no_json_is_shown_as_text(body: bytes) -> None:
    assert bodies.shown(body).view is View.TEXT


def test_what_cannot_be_seen_is_named() -> None:
    assert visible("a\x1b[0m\x00\x7f\tb\nc") == "a\u241b[0m\u2400\u2421\tb\nc"
    assert visible("\u202ea\u200b\u2066") == "<U+202E>a<U+200B><U+2066>"
    assert in_line("a\r\nb\tc") == "a\u240d\u240ab c"
    assert visible(None) == ""
    assert visible("日本語 ❤ é") == "日本語 ❤ é"
