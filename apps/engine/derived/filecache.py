"""A bounded number of open files. Knows paths and the disk seam, nothing of what is in them."""

from collections import OrderedDict

from apps.engine.files.backend import Disk, File

_OPEN_MAX = 256


class FileCache:
    """Open files on demand and close the one used longest ago when there are too many."""

    def __init__(self, disk: Disk) -> None:
        """Start with nothing open."""
        self.disk = disk
        self._open: OrderedDict[str, File] = OrderedDict()

    def get(self, path: str, *, create: bool = False) -> File:
        """Return the open file; raise FileNotFoundError when absent and not `create`."""
        file = self._open.pop(path, None)
        if file is None:
            file = self.disk.open(path, create=create)
            if len(self._open) >= _OPEN_MAX:
                self._open.popitem(last=False)[1].close()
        self._open[path] = file
        return file

    def forget(self, path: str) -> None:
        """Close a file if it is open."""
        file = self._open.pop(path, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        """Close all."""
        while self._open:
            self._open.popitem()[1].close()
