"""The HTTP core: every way of cutting an answer gives the same answer, or the same refusal."""

import pytest
from mqclient.errors import InvalidArgument, ProtocolViolation
from mqclient.limits import HEAD_BYTES_MAX
from mqclient.protocol.endpoint import Endpoint
from mqclient.wire.http1 import Response, ResponseReader

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nhel\r\n2;note=1\r\nlo\r\n0\r\nTrailer: x\r\n\r\n"
)
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + PLAIN
UNTIL_CLOSE = b"HTTP/1.0 200 OK\r\n\r\nhello"


def fed(data: bytes, step: int) -> Response:
    reader = ResponseReader()
    for start in range(0, len(data), step):
        response = reader.feed(data[start : start + step])
        if response is not None:
            assert start + step >= len(data)
            return response
    return reader.feed_end()


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("data", [PLAIN, CHUNKED, INTERIM, UNTIL_CLOSE])
def test_an_answer_is_the_same_however_it_is_cut(data: bytes, step: int) -> None:
    response = fed(data, step)

    assert response.status == 200
    assert response.body == b"hello"


def test_header_names_are_compared_without_case() -> None:
    response = fed(PLAIN, 1)

    assert response.header(b"x-a") == "b"
    assert response.keep_alive


def test_an_answer_without_a_body_ends_with_its_head() -> None:
    response = fed(b"HTTP/1.1 204 No Content\r\n\r\n", 5)

    assert (response.status, response.body) == (204, b"")


def test_a_reader_serves_one_answer_after_the_other() -> None:
    reader = ResponseReader()

    first, second = reader.feed(PLAIN), reader.feed(CHUNKED)

    assert first is not None
    assert second is not None
    assert first.body == second.body == b"hello"


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_a_connection_the_server_ends_is_not_kept(head: bytes) -> None:
    assert not fed(head, 100).keep_alive


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 20x OK\r\n\r\n",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nspace : x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+3\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
    ],
)
def test_an_answer_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        fed(data, 1)


def test_a_head_without_an_end_is_refused_at_the_limit() -> None:
    reader = ResponseReader()
    reader.feed(b"HTTP/1.1 200 OK\r\n")
    reader.feed(b"a: bbb\r\n" * ((HEAD_BYTES_MAX - 17) // 8))

    with pytest.raises(ProtocolViolation):
        reader.feed(b"a: bbb\r\n")


def test_bytes_behind_an_answer_are_refused() -> None:
    reader = ResponseReader()

    with pytest.raises(ProtocolViolation):
        reader.feed(PLAIN + b"more")


@pytest.mark.parametrize("length", range(1, len(PLAIN)))
def test_a_connection_that_ends_inside_an_answer_is_told(length: int) -> None:
    with pytest.raises(ProtocolViolation):
        fed(PLAIN[:length], 1000)


def test_a_request_names_host_token_and_length() -> None:
    endpoint = Endpoint.of("http://[::1]:81/base/", token="t0k")

    head = endpoint.head("POST", "/x", accept="a/b", content_type="c/d", body_bytes=3)

    assert head == (
        b"POST /base/x HTTP/1.1\r\nHost: [::1]:81\r\nUser-Agent: mqclient\r\nAccept: a/b\r\n"
        b"Authorization: Bearer t0k\r\nContent-Type: c/d\r\nContent-Length: 3\r\n\r\n"
    )


@pytest.mark.parametrize(
    "server", ["", "localhost:80", "ftp://x", "http://", "http://a:b", "http://u:p@x", "http://x?q"]
)
def test_what_is_no_url_is_refused(server: str) -> None:
    with pytest.raises(InvalidArgument):
        Endpoint.of(server)


def test_a_token_cannot_smuggle_a_header() -> None:
    with pytest.raises(InvalidArgument):
        Endpoint.of("http://x", token="a\r\nX: y")
