"""Once by a mark in Redis, for effects that lie elsewhere. Knows a client of redis-py's shape only.

    PREFIX SCOPE:KEY -> a token of whoever works at it, for `lease_ms`; "done" for `kept_ms`

The mark and the effect are not one step. Who dies, or takes longer than its lease, between the two
leaves the effect done without its mark, and it is done again. So this is for effects that bear
that rarely; one that never does belongs into the database of its mark (SqlOnce).
"""

import secrets
from collections.abc import Callable
from typing import Any, Protocol

from mqclient.errors import EffectBusy, InvalidArgument
from mqclient.idempotent.keys import checked_key
from mqclient.names import checked_name

_DONE = "done"
# Only the mark of this very attempt: another may work after a lease that ended.
_FINISH = """
if redis.call('GET', KEYS[1]) == ARGV[1] then
    redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
    return 1
end
return 0
"""
_FORGET = """
if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
end
return 0
"""


class RedisClient(Protocol):
    """What is used of a Redis client."""

    def set(self, name: str, value: str, *, nx: bool = ..., px: int | None = ...) -> Any:
        """Set a key, with `nx` only where there is none, for `px` milliseconds."""

    def get(self, name: str) -> Any:
        """Return a value as bytes or text, None without one."""

    def eval(self, script: str, numkeys: int, *keys_and_args: str) -> Any:
        """Run a script."""


class RedisOnce:
    """Runs work once for a key, as long as the mark is kept."""

    def __init__(
        self,
        client: RedisClient,
        *,
        scope: str,
        lease_ms: int = 60_000,
        kept_ms: int = 7 * 24 * 3_600_000,
        prefix: str = "mq-once:",
    ) -> None:
        """Work within `lease_ms`, be remembered for `kept_ms`; raise InvalidArgument.

        A message may come again as long as its group tries it and its dead letter may be sent, so
        `kept_ms` should be longer than that.
        """
        if lease_ms < 1 or kept_ms < lease_ms:
            raise InvalidArgument("lease_ms is 1 or more, and kept_ms no less than it")
        self._client = client
        self._prefix = f"{prefix}{checked_name(scope, 'scope')}:"
        self._lease_ms = lease_ms
        self._kept_ms = kept_ms

    def run(self, key: str, work: Callable[[], object]) -> bool:
        """Run `work` unless it was done; return False where it was.

        Raise EffectBusy while another works at it: let the message come again. What `work` raises
        is raised, and it may be tried again at once.
        """
        name = self._prefix + checked_key(key)
        token = secrets.token_hex(16)
        if not self._client.set(name, token, nx=True, px=self._lease_ms):
            value = self._client.get(name)
            if value in (_DONE, _DONE.encode()):
                return False
            raise EffectBusy(f"somebody works at {key!r}")
        try:
            work()
        except BaseException:
            self._client.eval(_FORGET, 1, name, token)
            raise
        self._client.eval(_FINISH, 1, name, token, _DONE, str(self._kept_ms))
        return True
