"""From Celery's names to topics and back to nothing: names only go in. Knows text only.

celery-q-<queue>             a lane: a Celery queue that consumers share
celery-x-<exchange>          the broadcasts of an exchange
celery-bindings              which lanes are bound to which exchange
celery-v-<virtual host>-...  the same three of a virtual host other than "/"
"""

import hashlib
import os
import secrets
import socket
from dataclasses import dataclass
from urllib.parse import quote

from mqclient.limits import NAME_CHARACTERS_MAX

_DIGEST_CHARACTERS = 16
DEFAULT_VIRTUAL_HOST = "/"


@dataclass(frozen=True, slots=True)
class Names:
    """The topics of one virtual host."""

    virtual_host: str = DEFAULT_VIRTUAL_HOST

    def lane(self, queue: str) -> str:
        """Return the topic of a lane."""
        return fitted(f"{self._prefix}q-{escaped(queue)}")

    def broadcasts(self, exchange: str) -> str:
        """Return the topic of an exchange's broadcasts."""
        return fitted(f"{self._prefix}x-{escaped(exchange)}")

    @property
    def bindings(self) -> str:
        """Return the topic of the bindings."""
        return fitted(f"{self._prefix}bindings")

    @property
    def _prefix(self) -> str:
        if self.virtual_host == DEFAULT_VIRTUAL_HOST:
            return "celery-"
        # Without its hyphens a virtual host cannot be mistaken for what comes after it.
        return f"celery-v-{escaped(self.virtual_host).replace('-', '%2D')}-"


def escaped(text: str) -> str:
    """Return text with every character but letters, digits, `_` and `-` as %XX of its UTF-8."""
    return quote(text, safe="-_").replace(".", "%2E").replace("~", "%7E")


def fitted(name: str) -> str:
    """Return a name that is not too long for a topic; a cut one ends with a digest of it all."""
    if len(name) <= NAME_CHARACTERS_MAX:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{name[: NAME_CHARACTERS_MAX - _DIGEST_CHARACTERS - 1]}-{digest}"


def client_id() -> str:
    """Return a name for this process's consumer, as the broker's console shows it."""
    return f"{socket.gethostname()[:128]}@{os.getpid()}#{secrets.token_hex(4)}"
