"""A browser's live socket, kept open by a thread: carries deltas out and remembers pictures."""

import json
import threading
import time
from itertools import pairwise
from typing import Any, Self

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.typing import Origin

from tests.web.console.live import Held

ARRIVE_S_MAX = 60.0


class Viewer:
    """One viewer of the overview. It does not come back by itself: a lost socket is a finding."""

    def __init__(self, port: int) -> None:
        """Shake hands; pictures come from `with` on."""
        self._handshake = connect(
            f"ws://127.0.0.1:{port}/ws/live/?view=overview",
            origin=Origin(f"http://127.0.0.1:{port}"),
            open_timeout=ARRIVE_S_MAX,
            max_size=None,
        )
        self._changed = threading.Condition()
        self._arrivals: list[float] = []
        self._pictures: list[dict[str, Any]] = []
        self._is_open = True
        self._held = Held()

    def __enter__(self) -> Self:
        """Return when the first picture is there."""
        self._socket = self._handshake.__enter__()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        self.wait_for(lambda picture: True, within_s=ARRIVE_S_MAX)
        return self

    def __exit__(self, *_: object) -> None:
        self._handshake.__exit__(None, None, None)
        self._thread.join(timeout=ARRIVE_S_MAX)
        assert not self._thread.is_alive()

    @property
    def is_open(self) -> bool:
        """Say whether the server has kept the socket open."""
        return self._is_open

    @property
    def picture(self) -> dict[str, Any]:
        """Return the newest picture."""
        return self._pictures[-1]

    @property
    def versions(self) -> list[int]:
        """Return the versions of all pictures, in the order they came."""
        return [picture["version"] for picture in self._pictures]

    def count_since(self, since: float) -> int:
        """Return how many pictures came from a moment of the monotonic clock on."""
        return sum(moment > since for moment in self._arrivals)

    def longest_silence_s(self, since: float) -> float:
        """Return the longest time without a picture from a moment of the monotonic clock on."""
        moments = [since, *(moment for moment in self._arrivals if moment > since)]
        moments.append(time.monotonic())
        return max(later - earlier for earlier, later in pairwise(moments))

    def wait_for(self, is_wanted: Any, *, within_s: float) -> dict[str, Any]:
        """Return the first picture from now on, the newest included, that is wanted."""
        with self._changed:
            assert self._changed.wait_for(
                lambda: bool(self._pictures) and is_wanted(self._pictures[-1]), timeout=within_s
            ), f"no such picture within {within_s} s; the socket is open: {self._is_open}"
            return self._pictures[-1]

    def _watch(self) -> None:
        try:
            for text in self._socket:
                picture = self._held.take(json.loads(text))
                picture["history"] = self._held.history
                with self._changed:
                    self._pictures.append(picture)
                    self._arrivals.append(time.monotonic())
                    self._changed.notify_all()
        except ConnectionClosed:
            pass
        finally:
            self._is_open = False
