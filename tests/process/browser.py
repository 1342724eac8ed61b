"""A real browser without a window, asked over its debugging protocol: opens pages, reads them."""

import itertools
import json
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any, Self

from websockets.sync.client import connect

from tests.bound import bound

PROGRAM = shutil.which("chromium")
# Only a hang must fail: a browser takes seconds to start where others want the same processor.
START_S_MAX = 120.0
ANSWER_S_MAX = 60.0
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--remote-debugging-port=0",
)  # fmt: skip


class Browser:
    """One browser with one page."""

    def __init__(self, directory: Path) -> None:
        """Start it; what it keeps is in `directory`."""
        assert PROGRAM is not None
        self._directory = directory
        command = bound([PROGRAM, *_FLAGS, f"--user-data-dir={directory}", "about:blank"])
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        self._connection = connect(self._address(), max_size=None)
        self._socket = self._connection.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.__exit__(None, None, None)
        self._process.terminate()
        self._process.wait(timeout=START_S_MAX)

    def open(self, address: str) -> None:
        """Go to an address, and return when its scripts have run."""
        self._ask("Page.enable")
        self._ask("Page.navigate", url=address)
        self.wait_for("document.readyState === 'complete'", within_s=ANSWER_S_MAX)

    def read(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript."""
        found = self._ask("Runtime.evaluate", expression=expression, returnByValue=True)
        return found["result"].get("value")

    def text(self, selector: str) -> str | None:
        """Return the text of the first element of a selector; None where there is none."""
        found = self.read(f"document.querySelector({json.dumps(selector)})?.textContent.trim()")
        return None if found is None else str(found)

    def wait_for(self, condition: str, *, within_s: float) -> float:
        """Wait until an expression is true; return how long that took."""
        begun = time.monotonic()
        while not self.read(condition):
            passed = time.monotonic() - begun
            assert passed < within_s, f"not within {within_s} s: {condition}"
            time.sleep(0.05)
        return time.monotonic() - begun

    def before_each_page(self, script: str) -> None:
        """Run a script in every page that is opened from now on, before its own."""
        self._ask("Page.enable")
        self._ask("Page.addScriptToEvaluateOnNewDocument", source=script)

    def _ask(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._socket.recv(timeout=ANSWER_S_MAX))
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def _address(self) -> str:
        deadline = time.monotonic() + START_S_MAX
        port_file = self._directory / "DevToolsActivePort"
        while time.monotonic() < deadline:
            if port_file.exists() and port_file.read_text().count("\n"):
                port = port_file.read_text().split("\n")[0]
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
                    pages = [page for page in json.load(answer) if page["type"] == "page"]
                if pages:
                    return str(pages[0]["webSocketDebuggerUrl"])
            time.sleep(0.05)
        raise AssertionError("the browser does not answer")
