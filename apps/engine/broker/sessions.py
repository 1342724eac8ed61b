"""Clients that were there lately: who, of which topics, and when. Knows no message and no disk.

A restart begins with nobody; a client is known again with its next receive or heartbeat.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from sys import intern

from apps.engine.clock import Clock
from apps.engine.types import ClientSeen

# A client that reads different topics in different receives has a session for each choice, so
# that one receive is one look-up and nothing has to be merged before somebody asks.
_Key = tuple[str, str, tuple[str, ...]]


@dataclass(slots=True, kw_only=True)
class _Session:
    """Readings are of the monotonic clock; `parked` receives wait in the broker now."""

    first_ms: int
    last_ms: int
    parked: int = 0
    software: str = ""
    address: str = ""


class Sessions:
    """Sessions by group, client and topics, the longest silent first."""

    def __init__(self, clock: Clock, *, sessions_max: int) -> None:
        """Know nobody; above `sessions_max` the longest silent is forgotten for each new one."""
        self._clock = clock
        self._sessions_max = sessions_max
        self._sessions: OrderedDict[_Key, _Session] = OrderedDict()

    def see(
        self,
        group: str,
        client_id: str,
        topics: tuple[str, ...],
        *,
        software: str = "",
        address: str = "",
    ) -> None:
        """Note that a client asks now; one that gives no client id stays unknown.

        What it does not say of itself stays as it said it before.
        """
        if not client_id:
            return
        key = (group, client_id, topics)
        session = self._sessions.get(key)
        if session is None:
            session = self._begin(key)
        else:
            session.last_ms = self._clock.monotonic_ms()
            self._sessions.move_to_end(key)
        if address:
            session.software, session.address = software, address

    @contextmanager
    def waiting(self, group: str, client_id: str, topics: tuple[str, ...]) -> Iterator[None]:
        """Count a client that was seen as seen now, for the time of the block."""
        key = (group, client_id, topics)
        session = self._sessions.get(key)
        if session is None:
            yield
            return
        session.parked += 1
        try:
            yield
        finally:
            session.parked -= 1
            self.see(*key)

    def clients(self, group: str | None = None) -> list[ClientSeen]:
        """Return the clients of one group or all, by group and client id."""
        found = self._sessions.items()
        return self._merged(item for item in found if group is None or item[0][0] == group)

    def forget_silent(self, silent_ms: int) -> list[ClientSeen]:
        """Forget what was silent for longer than `silent_ms`; return the clients now unknown.

        A client that still reads other topics is not among them: it only has fewer.
        """
        since_ms = self._clock.monotonic_ms() - silent_ms
        silent: dict[_Key, _Session] = {}
        for key, session in self._sessions.items():
            if session.parked:
                continue
            if session.last_ms >= since_ms:
                break
            silent[key] = session
        if not silent:
            return []
        for key in silent:
            del self._sessions[key]
        known = {(group, client_id) for group, client_id, _ in self._sessions}
        return self._merged(item for item in silent.items() if item[0][:2] not in known)

    def _begin(self, key: _Key) -> _Session:
        if len(self._sessions) >= self._sessions_max:
            self._forget_longest_silent()
        group, client_id, topics = key
        now_ms = self._clock.monotonic_ms()
        # Thousands of clients name the same few topics; the texts of a request are its own.
        shared = (intern(group), client_id, tuple(map(intern, topics)))
        session = self._sessions[shared] = _Session(first_ms=now_ms, last_ms=now_ms)
        return session

    def _forget_longest_silent(self) -> None:
        for _ in range(len(self._sessions)):
            key, session = next(iter(self._sessions.items()))
            if not session.parked:
                break
            # Seen now, so its place is at the end; the next search need not pass it again.
            session.last_ms = self._clock.monotonic_ms()
            self._sessions.move_to_end(key)
        self._sessions.popitem(last=False)

    def _merged(self, sessions: Iterable[tuple[_Key, _Session]]) -> list[ClientSeen]:
        """Return the clients of the sessions: the topics of all, the first and the last time."""
        now_ms = self._clock.monotonic_ms()
        wall_now_ms = self._clock.wall_ms()
        merged: dict[tuple[str, str], tuple[tuple[str, ...], int, int, int]] = {}
        said: dict[tuple[str, str], tuple[str, str]] = {}
        for (group, client_id, topics), session in sessions:
            first_ms, parked = session.first_ms, session.parked
            last_ms = now_ms if parked else session.last_ms
            before = merged.get((group, client_id))
            if before is not None:
                topics = (*before[0], *topics)
                first_ms, last_ms = min(before[1], first_ms), max(before[2], last_ms)
                parked += before[3]
            merged[group, client_id] = (topics, first_ms, last_ms, parked)
            # The longest silent come first, so what was said last stays.
            if session.address:
                said[group, client_id] = (session.software, session.address)
        return [
            ClientSeen(
                group=group,
                client_id=client_id,
                topics=tuple(sorted(set(topics))),
                first_seen_ms=wall_now_ms - (now_ms - first_ms),
                last_seen_ms=wall_now_ms - (now_ms - last_ms),
                is_waiting=parked > 0,
                software=said.get((group, client_id), ("", ""))[0],
                address=said.get((group, client_id), ("", ""))[1],
            )
            for (group, client_id), (topics, first_ms, last_ms, parked) in sorted(merged.items())
        ]
