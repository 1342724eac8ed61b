"""The viewers of this process by view, and the newest of each. Knows no socket, layer or engine.

One audience a process. Pictures may come by several ways, late and twice: the sequence of a picture
decides, and viewers never see an older one after a newer one.

Each view that somebody watches has a channel, one for all who may see the same of it: what it shows
of the newest picture under a version that grows by one, as text once a language, however many
watch. A viewer who has the version before gets what changed, any other all of it; so one who reads
slowly costs no memory and makes nobody wait.
"""

import asyncio
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import contextmanager

from apps.access.policy import Sight
from apps.access.policy.sight import ALL
from apps.console import frames
from apps.console.deltas import Delta, delta_of
from apps.console.picture import Picture
from apps.console.projections import Known, ViewState, state_of
from apps.console.snapshot import Snapshot
from apps.core.languages import DEFAULT, Language

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


class _Voice:
    """A channel in one language: its frames as text, made when the first viewer takes one."""

    def __init__(self) -> None:
        """Have said nothing yet."""
        self.viewers = 0
        self.delta = ""
        self.whole = ""
        # Versions in a row whose whole was too much to send.
        self.cut = range(0)

    def be_silent(self) -> None:
        """Forget the frames: there is a newer version."""
        self.delta = self.whole = ""


class Channel:
    """One view: what it shows now, under its version, in each language that somebody reads.

    What it shows and what has changed is found once; only the text of frames is made by language.
    """

    def __init__(self, view: str, sight: Sight = ALL) -> None:
        """Show nothing yet, and never more than a sight does."""
        self.view = view
        self._sight = sight
        self.version = 0
        self._voices: dict[Language, _Voice] = {}
        self._state: ViewState | None = None
        self._picture: Picture | None = None
        self._changed: Delta | None = None
        self._whole_until = 0

    @property
    def languages(self) -> Collection[Language]:
        """Return the languages that somebody reads."""
        return self._voices.keys()

    def come(self, language: Language) -> None:
        """Have one more viewer."""
        self._voices.setdefault(language, _Voice()).viewers += 1

    def go(self, language: Language) -> None:
        """Have one viewer less; a language that nobody reads costs nothing."""
        voice = self._voices[language]
        voice.viewers -= 1
        if not voice.viewers:
            del self._voices[language]

    def take(self, picture: Picture) -> None:
        """Show a newer picture."""
        picture = picture.seen_by(self._sight)
        state = state_of(self.view, picture)
        last, self._state, self._picture = self._state, state, picture
        self.version += 1
        self._changed = None
        for voice in self._voices.values():
            voice.be_silent()
        if last is not None and self.version > self._whole_until:
            self._changed = delta_of(last, state) or {}
            # One language tells how long frames are; the others are not much different.
            if any(self._is_too_much(language) for language in tuple(self._voices)[:1]):
                self._changed = None
                self._whole_until = self.version + LOOK_AGAIN - 1

    def text_after(self, version: int, language: Language) -> str | None:
        """Return the frame for who has `version`: None, what changed since, or all of it."""
        if self._picture is None or self._state is None or version == self.version:
            return None
        # Who was shown nothing, because it was too much, cannot carry out what has changed of it.
        can_follow = version == self.version - 1 and version not in self._voices[language].cut
        if self._changed is not None and can_follow:
            return self._delta_in(language)
        return self._all_in(language)

    def _is_too_much(self, language: Language) -> bool:
        length = len(self._delta_in(language))
        return length > LARGE_CHARACTERS and length > WORTH_SHARE * len(self._all_in(language))

    def _delta_in(self, language: Language) -> str:
        voice = self._voices[language]
        if not voice.delta:
            voice.delta = frames.delta(
                self.view, self.version, self._changed or {}, language=language
            )
        return voice.delta

    def _all_in(self, language: Language) -> str:
        assert self._state is not None
        assert self._picture is not None
        voice = self._voices[language]
        if not voice.whole:
            text = frames.whole(
                self.view,
                self.version,
                self._state,
                history=self._picture.history,
                language=language,
            )
            if len(text) > frames.FRAME_CHARACTERS_MAX:
                first = voice.cut.start if self.version == voice.cut.stop else self.version
                voice.cut = range(first, self.version + 1)
                still: ViewState = {**self._state, "known": Known.STILL.value, "shown": None}
                text = frames.whole(self.view, self.version, still, history=(), language=language)
            voice.whole = text
        return voice.whole


class Watcher:
    """One viewer of a channel: which language it reads, and which version it has."""

    def __init__(self, channel: Channel, language: Language) -> None:
        """Have none yet."""
        self.channel = channel
        self.language = language
        self.news = asyncio.Event()
        self._version = 0

    async def next(self) -> str:
        """Return the newest frame for this viewer as soon as there is one."""
        while True:
            self.news.clear()
            text = self.channel.text_after(self._version, self.language)
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
        self._channels: dict[tuple[str, Hashable], Channel] = {}
        self._watchers: dict[Watcher, None] = {}
        self._to_tell: dict[Watcher, None] = {}
        self._is_telling = False

    @contextmanager
    def joined(
        self, view: str, sight: Sight = ALL, language: Language = DEFAULT
    ) -> Iterator[Watcher]:
        """Watch a view in a language for the time of the block, as far as a sight shows it."""
        place = view, sight.key
        channel = self._channels.get(place)
        if channel is None:
            channel = self._channels[place] = Channel(view, sight)
            if self._picture is not None:
                channel.take(self._picture)
        watcher = Watcher(channel, language)
        channel.come(language)
        self._watchers[watcher] = None
        try:
            yield watcher
        finally:
            self._watchers.pop(watcher, None)
            self._to_tell.pop(watcher, None)
            channel.go(language)
            if not channel.languages and self._channels.get(place) is channel:
                del self._channels[place]

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
        return any(view.partition(".")[0] in kinds for view, _ in self._channels)

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
