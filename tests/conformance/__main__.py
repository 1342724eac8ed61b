"""The conformance run: builds the clients, starts products, plays, writes the table.

    python -m tests.conformance [NAME ...] [--workers 4] [--keep]

Exits with 1 when a scenario failed. `--keep` keeps the results and writes docs/ROCKETMQ.md; without
it nothing of the repository is changed. ROCKETMQ_AGAINST=apache plays against Apache's own server.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.conformance import clients, results
from tests.conformance.servers import GUARDED, SHARED, Mqweb

_HERE = Path(__file__).parent
_TIMEOUT_S = 300


def main(arguments: Sequence[str]) -> int:
    """Carry a run out and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance")
    parser.add_argument("names", nargs="*", choices=[*clients.CLIENTS, []], default=[])
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--keep", action="store_true", help="write results and table")
    parser.add_argument("--only", default="", help="words of scenarios, as pytest takes them")
    chosen = parser.parse_args(arguments)
    clients.main(chosen.names)
    if os.environ.get("ROCKETMQ_AGAINST", "mqweb") != "mqweb":
        return _play(chosen, {})
    with tempfile.TemporaryDirectory(prefix="conformance-") as directory:
        servers: dict[str, Mqweb] = {}
        try:
            for name in (SHARED, GUARDED):
                data = Path(directory) / name.lower()
                servers[name] = Mqweb(data, is_guarded=name == GUARDED, migrates=True)
            code = _play(chosen, {name: server.place for name, server in servers.items()})
        finally:
            for server in servers.values():
                server.stop()
    if chosen.keep:
        results.write()
    return code


def _play(chosen: argparse.Namespace, environ: dict[str, str]) -> int:
    words = " or ".join(chosen.names)
    chosen_words = " and ".join(f"({part})" for part in (words, chosen.only) if part)
    command = [sys.executable, "-m", "pytest", "-q", "-rfEs", "--timeout", str(_TIMEOUT_S)]
    command += ["-m", "rocketmq", "-n", str(chosen.workers), "--dist", "worksteal"]
    command += ["-k", chosen_words] if chosen_words else []
    if chosen.keep:
        environ = {**environ, "MQWEB_CONFORMANCE_RESULTS": str(results.KEPT)}
    environ = {"MQWEB_CONFORMANCE_BUILDS": str(clients.builds()), **os.environ, **environ}
    return subprocess.run([*command, str(_HERE)], env=environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
