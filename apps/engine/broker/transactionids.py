"""Transaction ids: `<half offset, hex>.<epoch, hex>-<check>`. Knows text and checksums only.

The check ties an id to its store. The epoch keeps apart two half messages of one offset: a power
cut may take back the record that was there first.
"""

import re

from apps.engine.codec.checksum import crc32
from apps.engine.errors import UnknownTransaction

_ID = re.compile(r"([0-9a-f]{1,15})\.([0-9a-f]{1,8})-([0-9a-f]{8})")


class TransactionIds:
    """Issue and read the transaction ids of one store."""

    def __init__(self, store_id: str) -> None:
        """Bind to a store."""
        self._store_id = store_id

    def text(self, half_offset: int, epoch: int) -> str:
        """Return the id of the transaction of a half message."""
        return f"{half_offset:x}.{epoch:x}-{self._check(half_offset, epoch):08x}"

    def parse(self, text: str) -> tuple[int, int]:
        """Return half offset and epoch; raise UnknownTransaction for an id of another store."""
        match = _ID.fullmatch(text)
        if match is not None:
            half_offset, epoch = int(match[1], 16), int(match[2], 16)
            # There is one way to write an id: one with zeros in front would be another.
            if text == self.text(half_offset, epoch):
                return half_offset, epoch
        raise UnknownTransaction("this store has issued no such transaction id")

    def _check(self, half_offset: int, epoch: int) -> int:
        return crc32(f"{self._store_id}/transaction/{half_offset}/{epoch}".encode())
