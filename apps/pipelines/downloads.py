"""Files of the lake as answers, one or many in an archive. Knows files, no rows and no request.

A file is read piece by piece in a thread, and an archive is written as it is sent.
"""

import zipfile
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import IO

from asgiref.sync import sync_to_async
from django.http import StreamingHttpResponse

from apps.core.attachments import attachment
from apps.pipelines.selectors.files import Kept

PARQUET = "application/vnd.apache.parquet"
ZIP = "application/zip"
_PIECE_BYTES = 256 * 1024
# What the format of archives takes for the first moment there is.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


def one(file: Kept, *, number: int) -> StreamingHttpResponse:
    """Return an answer with one file."""
    answer = attachment(
        _in_thread(_pieces(file.path.open("rb"))), media_type=PARQUET, name=f"{number}.parquet"
    )
    answer["Content-Length"] = str(file.size_bytes)
    return answer


def archive(files: Iterable[Kept], *, name: str) -> StreamingHttpResponse:
    """Return an answer with files in a ZIP archive, as they lie in the lake.

    They are not compressed again. One that is deleted meanwhile breaks the archive off.
    """
    return attachment(_in_thread(_zipped(files)), media_type=ZIP, name=name)


async def _in_thread(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    following = sync_to_async(lambda: next(pieces, b""), thread_sensitive=False)
    while piece := await following():
        yield piece


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while piece := file.read(_PIECE_BYTES):
            yield piece


class _Gathered:
    """Where an archive is written to; what was written is taken away piece by piece."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, piece: bytes) -> int:
        self._pieces.append(bytes(piece))
        return len(piece)

    def flush(self) -> None:
        pass

    def taken(self) -> bytes:
        found, self._pieces = b"".join(self._pieces), []
        return found


def _zipped(files: Iterable[Kept]) -> Iterator[bytes]:
    gathered = _Gathered()
    with zipfile.ZipFile(gathered, "w", zipfile.ZIP_STORED) as archive:  # type: ignore[call-overload]
        for file in files:
            entry = zipfile.ZipInfo(file.name, _NO_TIME)
            entry.file_size = file.size_bytes
            with archive.open(entry, "w") as written, file.path.open("rb") as read:
                for piece in _pieces(read):
                    written.write(piece)
                    yield gathered.taken()
    # What is empty would be taken for the end; the list of its files never is.
    yield gathered.taken()
