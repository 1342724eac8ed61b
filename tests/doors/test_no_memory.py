"""No memory for a request: it is refused, the engine is not asked, and the next one is served."""

import pytest

from apps.doors.http import reading
from tests.doors.asgi import Client

PATH = "/api/v1/topics/single/messages"


class NoMemory:
    """An allocator that fails at its nth call."""

    uint8 = None

    def __init__(self, nth: int) -> None:
        self.left = nth

    def empty(self, _size: int, _kind: object) -> None:
        self.left -= 1
        if self.left == 0:
            raise MemoryError


@pytest.mark.parametrize("nth", [1, 2, 3])
async def test_the_nth_large_request_finds_no_memory_and_is_refused_alone(
    client: Client, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    allocator = NoMemory(nth)
    monkeypatch.setattr(reading, "np", allocator)
    statuses, offsets = [], []
    for _ in range(4):
        large = {"messages": [{"body": "x" * 100_000}]}
        answer = await client.request("POST", PATH, document=large)
        statuses.append(answer.status)
        if answer.status == 201:
            offsets.append(int(answer.json()["results"][0]["offset"]))
        else:
            assert answer.code == "out_of_means"
            assert answer.json()["retriable"]
            assert answer.headers["retry-after"] == "1"

    assert allocator.left <= 0, "the fault never came"
    assert statuses == [503 if number == nth - 1 else 201 for number in range(4)]
    assert offsets == [0, 1, 2]


async def test_small_requests_ask_for_nothing_beforehand(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "np", NoMemory(1))

    answer = await client.request("POST", PATH, document={"messages": [{"body": "small"}]})

    assert answer.status == 201
