"""Where a webhook may go: tricks that others have fallen for, each with what becomes of it."""

import http.server
import socket
import threading
from collections.abc import Iterator

import pytest

from apps.alerts.outbound import posting
from apps.alerts.outbound.posting import PostFailed, post
from apps.alerts.outbound.targets import Policy, RefusedTarget, parsed, resolved, shown

PUBLIC = "93.184.215.14"
OPEN = Policy()

# Refused as they are written, before any name is asked for.
REFUSED_AS_WRITTEN = [
    "",
    "hooks.example.com",
    "//hooks.example.com/",
    "http://hooks.example.com/",
    "ftp://hooks.example.com/",
    "file:///etc/passwd",
    "gopher://hooks.example.com:70/_x",
    "dict://127.0.0.1:11211/",
    "jar:https://hooks.example.com!/",
    "javascript:alert(1)",
    "https:hooks.example.com",
    "https:///hooks.example.com/",
    "https://hooks.example.com:22/",
    "https://hooks.example.com:8443/",
    "https://hooks.example.com:0/",
    "https://hooks.example.com:443443/",
    "https://hooks.example.com:/",
    "https://user@hooks.example.com/",
    "https://hooks.example.com@127.0.0.1/",
    "https://hooks.example.com:pass@127.0.0.1/",
    "https://127.0.0.1#@hooks.example.com/",
    "https://127.0.0.1\\@hooks.example.com/",
    "https://hooks.example.com\\.evil.example/",
    "https://hooks.example.com/#fragment",
    "https://hooks.example.com/\r\nX-Injected: 1",
    "https://hooks.example.com/ HTTP/1.1",
    "https://hooks.example.com\t/",
    " https://hooks.example.com/",
    "https://hooks.example.com./",
    "https://.example.com/",
    "https://hooks..example.com/",
    "https://-hooks.example.com/",
    "https://hooks_example.com/",
    "https://%31%32%37.0.0.1/",
    "https://127.0.0.1%2f@hooks.example.com/",
    "https://\N{FULLWIDTH DIGIT ONE}27.0.0.1/",
    "https://\N{CIRCLED DIGIT ONE}\N{CIRCLED DIGIT TWO}7.0.0.1/",
    "https://ex\N{CYRILLIC SMALL LETTER A}mple.com/",
    "https://127.0.0.1/",
    "https://127.1/",
    "https://127.0.1/",
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0x7f.0.0.1/",
    "https://0177.0.0.1/",
    "https://127.0.0.01/",
    "https://0/",
    "https://0.0.0.0/",
    "https://10.0.0.5/",
    "https://172.16.0.1/",
    "https://192.168.1.1/",
    "https://100.64.0.1/",
    "https://100.100.100.200/latest/meta-data/",
    "https://169.254.169.254/latest/meta-data/",
    "https://168.63.129.16/metadata",
    "https://192.0.0.192/",
    "https://198.18.0.1/",
    "https://224.0.0.1/",
    "https://255.255.255.255/",
    "https://[::1]/",
    "https://[::]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:a9fe:a9fe]/",
    "https://[::127.0.0.1]/",
    "https://[64:ff9b::7f00:1]/",
    "https://[64:ff9b::a9fe:a9fe]/",
    "https://[2002:7f00:1::]/",
    "https://[2001:0:4136:e378:8000:63bf:80ff:fffe]/",
    "https://[fe80::1]/",
    "https://[fe80::1%25eth0]/",
    "https://[fd00:ec2::254]/",
    "https://[ff02::1]/",
    "https://[::1/",
    "https://[::1]x/",
    "https://[v1.fe80::a]/",
    "https://hooks.example.com/" + "a" * 2_000,
]

# Names that look fine, and what they turn out to be.
REFUSED_WHEN_RESOLVED = [
    ("localhost", ["127.0.0.1"]),
    ("localhost.localdomain", ["::1"]),
    ("127.0.0.1.nip.io", ["127.0.0.1"]),
    ("metadata.google.internal", ["169.254.169.254"]),
    ("rebind.example.com", [PUBLIC, "127.0.0.1"]),
    ("rebind.example.com", ["127.0.0.1", PUBLIC]),
    ("six.example.com", ["2606:2800:21f:cb07:6820:80da:af6b:8b2c", "fe80::1%eth0"]),
    ("mapped.example.com", ["::ffff:10.0.0.1"]),
    ("nat64.example.com", ["64:ff9b::a00:1"]),
    ("nowhere.example.com", []),
]


@pytest.mark.parametrize("url", REFUSED_AS_WRITTEN)
def test_a_trick_is_refused_as_it_is_written(url: str) -> None:
    with pytest.raises(RefusedTarget):
        parsed(url, OPEN)


@pytest.mark.parametrize(("host", "addresses"), REFUSED_WHEN_RESOLVED)
def test_a_name_with_one_address_that_is_not_public_is_refused(
    host: str, addresses: list[str]
) -> None:
    target = parsed(f"https://{host}/", OPEN)

    with pytest.raises(RefusedTarget):
        resolved(target, lambda *_: addresses)


@pytest.mark.parametrize(
    ("url", "host", "path"),
    [
        ("https://hooks.example.com", "hooks.example.com", "/"),
        ("https://HOOKS.Example.com:443/a?b=c&d=%2F", "hooks.example.com", "/a?b=c&d=%2F"),
        (f"https://{PUBLIC}/x", PUBLIC, "/x"),
        ("https://[2606:2800:21f:cb07::1]/", "2606:2800:21f:cb07::1", "/"),
        ("https://xn--bcher-kva.example/", "xn--bcher-kva.example", "/"),
    ],
)
def test_a_public_address_is_read_as_everybody_reads_it(url: str, host: str, path: str) -> None:
    target = parsed(url, OPEN)

    assert (target.scheme, target.host, target.port, target.path) == ("https", host, 443, path)
    assert resolved(target, lambda *_: [PUBLIC]) == [PUBLIC]


def test_an_allow_list_of_hosts_has_what_is_below_them_and_nothing_that_looks_alike() -> None:
    policy = Policy(hosts=("example.com",))

    assert parsed("https://hooks.example.com/", policy).host == "hooks.example.com"
    for host in ("evil-example.com", "example.com.evil.org", "example.org", PUBLIC):
        with pytest.raises(RefusedTarget, match="MQWEB_WEBHOOK_HOSTS"):
            parsed(f"https://{host}/", policy)


def test_a_trusted_place_may_be_anything_and_its_neighbour_not() -> None:
    policy = Policy(hosts=("example.com",), trusted=frozenset({"127.0.0.1:8239", "intern"}))

    here = parsed("http://127.0.0.1:8239/hook", policy)
    assert resolved(here, lambda *_: ["127.0.0.1"]) == ["127.0.0.1"]
    assert parsed("http://intern:9/x", policy).is_trusted
    for url in ("http://127.0.0.1:8240/", "http://127.0.0.1/", "http://intern.example/"):
        with pytest.raises(RefusedTarget):
            parsed(url, policy)


def test_what_follows_the_host_is_not_shown_to_anybody() -> None:
    assert shown("https://hooks.example.com/token/abc?key=d") == "https://hooks.example.com/…"
    assert shown("no address at all") == "…"


class Hook(http.server.BaseHTTPRequestHandler):
    """Answers as its address says, and keeps what it was sent."""

    got: list[tuple[str, str, bytes]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append((self.path, self.headers["Host"], body))
        self.send_response(int(self.path.strip("/")))
        self.send_header("Location", "http://169.254.169.254/")
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"done")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def hook() -> Iterator[int]:
    """Run a hook on a port of its own."""
    Hook.got = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


def trusting(port: int) -> Policy:
    return Policy(trusted=frozenset({f"hook.test:{port}"}))


def test_a_post_goes_to_the_address_that_was_checked_under_its_own_name(hook: int) -> None:
    asked = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append((host, port))
        return ["127.0.0.1"]

    answer = post(f"http://hook.test:{hook}/204", b"{}", policy=trusting(hook), resolve=resolve)

    assert answer.status == 204
    assert Hook.got == [("/204", f"hook.test:{hook}", b"{}")]
    # Once: between a check and a connection a name could become another address.
    assert asked == [("hook.test", hook)]


def test_a_redirect_is_answered_and_not_followed(hook: int) -> None:
    answer = post(f"http://hook.test:{hook}/302", b"{}", policy=trusting(hook), resolve=here)

    assert answer.status == 302
    assert len(Hook.got) == 1


def test_nobody_is_asked_where_the_address_is_refused() -> None:
    with pytest.raises(RefusedTarget):
        post("https://hook.test/", b"{}", policy=OPEN, resolve=here)


def test_one_that_answers_by_drops_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posting, "DEADLINE_S", 0.2)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    dropped = []

    def drip() -> None:
        caller, _ = listener.accept()
        with caller:
            caller.recv(65_536)
            try:
                while True:
                    # A drop well within the time-out of one read, and never a whole line.
                    caller.sendall(b"H")
                    dropped.append(1)
                    threading.Event().wait(0.02)
            except OSError:
                return

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        with pytest.raises(PostFailed):
            post(f"http://hook.test:{port}/", b"{}", policy=trusting(port), resolve=here)
    finally:
        listener.close()
        thread.join()
    assert len(dropped) > 2


def test_a_port_nobody_listens_at_and_a_name_nobody_knows_are_failures() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    with pytest.raises(PostFailed):
        post(f"http://hook.test:{port}/", b"{}", policy=trusting(port), resolve=here)
    with pytest.raises(PostFailed, match="resolved"):
        post("https://hook.test/", b"{}", policy=OPEN, resolve=nobody)


def here(*_: object) -> list[str]:
    return ["127.0.0.1"]


def nobody(*_: object) -> list[str]:
    raise socket.gaierror(-2, "Name or service not known")
