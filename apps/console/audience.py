"""The viewers of this process by view, and the newest of each. Knows no socket, layer or engine.

One audience a process. Pictures may come by several ways, late and twice: the sequence of a picture
decides, and viewers never see an older one after a newer one.

Each view that somebody watches has a channel: what it shows of the newest picture under a version
that grows by one, as text once whoever watches. A viewer who has the version before gets what
changed, any other all of it; so one who reads slowly costs no memory and makes nobody wait.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from apps.console import frames
from apps.console.deltas import delta_of
from apps.console.projections import Known, Picture, ViewState, state_of
from apps.console.snapshot import Snapshot

Sequence = tuple[int, int]
"""The store's epoch and the picture's version in it: grows with every picture, also over restarts.
"""

BEFORE_ALL: Sequence = (0, 0)

# The loop that the engine shares is not held for all viewers at once: so many are sent to in one
# turn, and the next after a pause.
AT_ONCE = 20
PAUSE_S = 0.005

# Where nearly everything changes, finding out what has takes ten times as long as sending it all:
# then all of it is sent, and only now and then is it looked whether less has become enough.
LARGE_CHARACTERS = 32 * 1024
WORTH_SHARE = 0.5
LOOK_AGAIN = 10


def sequence_of(snapshot: Snapshot) -> Sequence:
    """Return where a picture stands among all pictures of its store."""
    return int(snapshot["store"]["epoch"]), snapshot["version"]


class Channel:
    """One view: what it shows now, under its version."""

    def __init__(self, view: str) -> None:
        """Show nothing yet."""
        self.view = view
        self.viewers = 0
        self.version = 0
        self._state: ViewState | None = None
        self._picture: Picture | None = None
        self._delta = ""
        self._whole = ""
        self._whole_until = 0
        # Versions in a row whose whole was too much to send.
        self._cut = range(0)

    def take(self, picture: Picture) -> None:
        """Show a newer picture."""
        state = state_of(self.view, picture)
        last, self._state, self._picture = self._state, state, picture
        self.version += 1
        self._whole = ""
        self._delta = ""
        if last is not None and self.version > self._whole_until:
            self._delta = frames.delta(self.view, self.version, delta_of(last, state) or {})
            is_large = len(self._delta) > LARGE_CHARACTERS
            if is_large and len(self._delta) > WORTH_SHARE * len(self._all()):
                self._delta = ""
                self._whole_until = self.version + LOOK_AGAIN - 1

    def text_after(self, version: int) -> str | None:
        """Return the frame for who has `version`: None, what changed since, or all of it."""
        if self._picture is None or self._state is None or version == self.version:
            return None
        # Who was shown nothing, because it was too much, cannot carry out what has changed of it.
        can_follow = version == self.version - 1 and version not in self._cut
        return self._delta if self._delta and can_follow else self._all()

    def _all(self) -> str:
        assert self._state is not None
        assert self._picture is not None
        if not self._whole:
            history = self._picture.history
            text = frames.whole(self.view, self.version, self._state, history=history)
            if len(text) > frames.FRAME_CHARACTERS_MAX:
                first = self._cut.start if self.version == self._cut.stop else self.version
                self._cut = range(first, self.version + 1)
                still: ViewState = {**self._state, "known": Known.STILL.value, "shown": None}
                text = frames.whole(self.view, self.version, still, history=())
            self._whole = text
        return self._whole


class Watcher:
    """One viewer of a channel: which version it has."""

    def __init__(self, channel: Channel) -> None:
        """Have none yet."""
        self.channel = channel
        self.news = asyncio.Event()
        self._version = 0

    async def next(self) -> str:
        """Return the newest frame for this viewer as soon as there is one."""
        while True:
            self.news.clear()
            text = self.channel.text_after(self._version)
            if text is not None:
                self._version = self.channel.version
                return text
            await self.news.wait()

    def start_over(self) -> None:
        """Have the next frame be all of the view."""
        self._version = 0
        self.news.set()


class Audience:
    """Holds the newest picture and the channels somebody watches; used from one event loop."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all, and the event loop of those who waited for a picture."""
        self._sequence = BEFORE_ALL
        self._picture: Picture | None = None
        self._channels: dict[str, Channel] = {}
        self._watchers: dict[Watcher, None] = {}
        self._to_tell: dict[Watcher, None] = {}
        self._is_telling = False

    @contextmanager
    def joined(self, view: str) -> Iterator[Watcher]:
        """Watch a view for the time of the block."""
        channel = self._channels.get(view)
        if channel is None:
            channel = self._channels[view] = Channel(view)
            if self._picture is not None:
                channel.take(self._picture)
        watcher = Watcher(channel)
        channel.viewers += 1
        self._watchers[watcher] = None
        try:
            yield watcher
        finally:
            self._watchers.pop(watcher, None)
            self._to_tell.pop(watcher, None)
            channel.viewers -= 1
            if not channel.viewers and self._channels.get(view) is channel:
                del self._channels[view]

    @property
    def is_there(self) -> bool:
        """Say whether anybody watches."""
        return bool(self._watchers)

    @property
    def count(self) -> int:
        """Return how many watch."""
        return len(self._watchers)

    def watches(self, *kinds: str) -> bool:
        """Say whether anybody watches a view of one of these kinds."""
        return any(view.partition(".")[0] in kinds for view in self._channels)

    @property
    def sequence(self) -> Sequence:
        """Return the sequence of the newest picture; `BEFORE_ALL` before the first."""
        return self._sequence

    @property
    def picture(self) -> Picture | None:
        """Return the newest picture; None before the first."""
        return self._picture

    def show(self, sequence: Sequence, make: Callable[[], Picture]) -> None:
        """Give a picture to all channels; one that is not newer than the newest is not made."""
        if sequence <= self._sequence:
            return
        self._sequence, self._picture = sequence, make()
        for channel in self._channels.values():
            channel.take(self._picture)
        self._to_tell.update(self._watchers)
        if not self._is_telling:
            self._tell()

    def _tell(self) -> None:
        """Wake some viewers, and the rest after a pause."""
        for watcher in list(self._to_tell)[:AT_ONCE]:
            del self._to_tell[watcher]
            watcher.news.set()
        self._is_telling = bool(self._to_tell)
        if self._is_telling:
            asyncio.get_running_loop().call_later(PAUSE_S, self._tell)


audience = Audience()
