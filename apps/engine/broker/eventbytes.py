"""How the parts of a journal record's body are written and read. Knows bytes, no events."""

import struct
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

# Ascending, disjoint runs of offsets, ends included: int64[n, 2].
Runs = NDArray[np.int64]

U8 = struct.Struct(">B")
U16 = struct.Struct(">H")
U32 = struct.Struct(">I")
I64 = struct.Struct(">q")


@dataclass(slots=True)
class Reader:
    """Reads the parts of a body one after the other.

    Each method raises struct.error or ValueError when the body ends too early.
    """

    data: bytes
    at: int = field(default=0)

    def number(self, form: struct.Struct) -> int:
        """Read one integer."""
        (value,) = form.unpack_from(self.data, self.at)
        self.at += form.size
        return int(value)

    def text(self, length_form: struct.Struct = U16) -> str:
        """Read a length and so many bytes of UTF-8."""
        length = self.number(length_form)
        self.at += length
        if self.at > len(self.data):
            raise ValueError("the text is cut off")
        return self.data[self.at - length : self.at].decode()

    def numbers(self, count: int) -> NDArray[np.int64]:
        """Read so many 64-bit integers."""
        found = np.frombuffer(self.data, dtype=">i8", count=count, offset=self.at)
        self.at += found.nbytes
        return found.astype(np.int64)

    def runs(self) -> Runs:
        """Read a count and so many runs."""
        count = self.number(U32)
        return self.numbers(2 * count).reshape(count, 2)


def text_bytes(value: str, length_form: struct.Struct = U16) -> bytes:
    """Return what `Reader.text` reads."""
    data = value.encode()
    return length_form.pack(len(data)) + data


def runs_bytes(runs: Runs) -> bytes:
    """Return what `Reader.runs` reads."""
    return U32.pack(len(runs)) + runs.astype(">i8").tobytes()


def runs_of(offsets: NDArray[np.int64]) -> Runs:
    """Return ascending offsets as runs."""
    if len(offsets) == 0:
        return np.empty((0, 2), dtype=np.int64)
    breaks = np.flatnonzero(np.diff(offsets) != 1)
    first = offsets[np.concatenate(([0], breaks + 1))]
    last = offsets[np.concatenate((breaks, [len(offsets) - 1]))]
    return np.stack([first, last], axis=1)


def offsets_of(runs: Runs) -> NDArray[np.int64]:
    """Return runs as ascending offsets."""
    if len(runs) == 1:
        return np.arange(runs[0, 0], runs[0, 1] + 1)
    lengths = runs[:, 1] - runs[:, 0] + 1
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(runs[:, 0] - (ends - lengths), lengths) + np.arange(total)
