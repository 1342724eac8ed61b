"""A RabbitMQ node that shares nothing with one that may already run on the machine.

Its own name, ports, data, cookie and Erlang port mapper; no plug-ins.
"""

import os
import re
import subprocess
from pathlib import Path

from benchmarks.peers import installed
from benchmarks.servers import HOST, Server, answers, free_port

# Debian's command on the PATH changes user and directory; the script behind it does not.
_DEBIAN_SCRIPT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


class Node:
    """One running node."""

    def __init__(self, directory: Path) -> None:
        """Start the node with everything it writes below `directory`."""
        self.port = free_port()
        self._mapper_port = free_port()
        plugins = directory / "enabled_plugins"
        plugins.write_text("[].")
        (directory / "rabbitmq.conf").write_text("")
        self._environ = {
            "HOME": str(directory),
            "ERL_EPMD_ADDRESS": HOST,
            "ERL_EPMD_PORT": str(self._mapper_port),
            "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq"),
            "RABBITMQ_CONF_ENV_FILE": str(directory / "absent"),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_LOG_BASE": str(directory / "log"),
            "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
            "RABBITMQ_NODENAME": f"mqweb-bench-{os.getpid()}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": HOST,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_PID_FILE": str(directory / "pid"),
        }
        self._server = Server([_script()], directory=directory, environ=self._environ)

    @staticmethod
    def version() -> str:
        """Return the server's version from where its script lies, "unknown" otherwise."""
        found = re.search(r"rabbitmq_server-([0-9.]+)", os.path.realpath(_script()))
        return found.group(1) if found else "unknown"

    def wait(self) -> None:
        """Return when the node accepts connections."""
        self._server.wait_for(self.port)

    def stop(self) -> None:
        """Stop the node, then the port mapper, which detaches itself from the node."""
        self._server.stop()
        mapper = installed.program("epmd")
        if mapper and answers(self._mapper_port):
            # The mapper of this port was started by our node: the port was free before.
            command = [mapper, "-port", str(self._mapper_port), "-kill"]
            environ = {**os.environ, **self._environ}
            subprocess.run(command, env=environ, capture_output=True, check=True)


def _script() -> str:
    return str(_DEBIAN_SCRIPT) if _DEBIAN_SCRIPT.exists() else installed.program("rabbitmq-server")
