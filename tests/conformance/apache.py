"""Apache RocketMQ's own servers on this machine: name server, and broker and proxy in one JVM.

Built by Maven from `jars/pom.xml`, outside the sources. Knows their configuration; no client.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from tests.conformance import clients
from tests.conformance.servers import CHECK_AFTER_MS, RETRY_DELAY_MS
from tests.web.product import free_port

_SOURCES = Path(__file__).parent / "jars"
_CLUSTER = "DefaultCluster"
_START_S = 120.0
_OPENED = (
    "java.base/sun.nio.ch",
    "java.base/java.nio",
    "java.base/java.lang",
    "java.base/jdk.internal.misc",
)
# The wheel of delayed messages looks each second; a flush before each answer, as ours.
_BROKER = """\
brokerClusterName={cluster}
brokerName=broker-a
brokerId=0
namesrvAddr=127.0.0.1:{namesrv}
brokerIP1=127.0.0.1
listenPort={listen}
storePathRootDir={root}/store
storePathCommitLog={root}/store/commitlog
mappedFileSizeCommitLog=67108864
mappedFileSizeConsumeQueue=600000
timerWheelEnable=true
timerMaxDelaySec=259200
recallMessageEnable=true
enablePropertyFilter=true
autoCreateTopicEnable=false
autoCreateSubscriptionGroup=false
flushDiskType=SYNC_FLUSH
transactionTimeOut={check}
transactionCheckInterval={check}
diskMaxUsedSpaceRatio=99
"""
_PROXY = """{{
  "rocketMQClusterName": "{cluster}",
  "proxyMode": "LOCAL",
  "grpcServerPort": {grpc},
  "remotingListenPort": {remoting},
  "namesrvAddr": "127.0.0.1:{namesrv}"
}}
"""


def build() -> Path:
    """Fetch the jars and compile the commands' JVM; return the directory with both."""
    built = clients.builds() / "apache"
    if not (built / "target/apache-1.jar").exists():
        shutil.copytree(_SOURCES, built, dirs_exist_ok=True)
        subprocess.run(["mvn", "-q", "-B", "package"], cwd=built, check=True, timeout=1800)
    return built


class Apache:
    """One name server, broker and proxy on loopback ports."""

    name = "Apache RocketMQ"

    def __init__(self, directory: Path) -> None:
        """Start all and return when the proxy serves."""
        built = build()
        self._classes = f"{built}/target/apache-1.jar:{built}/target/lib/*"
        self._directory = directory
        self._home = directory / "home"
        (self._home / "conf").mkdir(parents=True)
        self._namesrv, self._grpc = free_port(), free_port()
        ports = {
            "cluster": _CLUSTER, "namesrv": self._namesrv, "grpc": self._grpc,
            "remoting": free_port(), "listen": free_port(), "root": directory,
            "check": CHECK_AFTER_MS,
        }  # fmt: skip
        (directory / "broker.conf").write_text(_BROKER.format(**ports))
        (self._home / "conf/rmq-proxy.json").write_text(_PROXY.format(**ports))
        (directory / "namesrv.conf").write_text(f"listenPort={self._namesrv}\n")
        self._names = self._java(
            "org.apache.rocketmq.namesrv.NamesrvStartup",
            "-c", str(directory / "namesrv.conf"), heap="96m",
        )  # fmt: skip
        _wait_for_port(self._namesrv, self._names)
        self._broker = self._start_broker()
        self._admin = self._java("Admin", heap="256m", is_talking=True)

    @property
    def endpoint(self) -> str:
        """Return host and port of the proxy's door."""
        return f"127.0.0.1:{self._grpc}"

    @property
    def tls_endpoint(self) -> str:
        """Return the same: the proxy tells by the first byte."""
        return self.endpoint

    @property
    def pid(self) -> int:
        """Return the process of broker and proxy."""
        return self._broker.pid

    def create_topic(self, topic: str, kind: str = "NORMAL", queue_count: int = 4) -> None:
        """Make a topic of a type."""
        count = str(queue_count)
        self._command(
            "updateTopic", "-c", _CLUSTER, "-t", topic, "-r", count, "-w", count,
            "-a", f"+message.type={kind}",
        )  # fmt: skip

    def create_group(self, group: str, *, is_fifo: bool = False, retry_max: int = 16) -> None:
        """Make a group with a delay of its own between tries."""
        policy = f'{{"type":"CUSTOMIZED","customizedRetryPolicy":{{"next":[{RETRY_DELAY_MS}]}}}}'
        self._command(
            "updateSubGroup", "-c", _CLUSTER, "-g", group, "-s", "true",
            "-o", "true" if is_fifo else "false", "-r", str(retry_max), "-p", policy,
        )  # fmt: skip

    def dead_letter_count(self, group: str) -> int:
        """Return how many messages the topic of the group's dead letters has."""
        told = self._command("topicStatus", "-t", f"%DLQ%{group}")
        lines = [line.split() for line in told.splitlines() if line.startswith("broker-a")]
        return sum(int(words[3]) - int(words[2]) for words in lines)

    def restart(self) -> None:
        """Kill broker and proxy and start them again on the same files and ports."""
        os.killpg(self._broker.pid, signal.SIGKILL)
        self._broker.wait()
        self._broker = self._start_broker()

    def stop(self) -> None:
        """End all processes."""
        for process in (self._admin, self._broker, self._names):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()

    def _start_broker(self) -> "subprocess.Popen[str]":
        process = self._java(
            "org.apache.rocketmq.proxy.ProxyStartup",
            "-pm", "local", "-n", f"127.0.0.1:{self._namesrv}",
            "-bc", str(self._directory / "broker.conf"),
            "-pc", str(self._home / "conf/rmq-proxy.json"), heap="512m",
        )  # fmt: skip
        _wait_for_port(self._grpc, process)
        return process

    def _java(
        self, main: str, *words: str, heap: str, is_talking: bool = False
    ) -> "subprocess.Popen[str]":
        command = ["java", f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:MaxDirectMemorySize=512m"]
        for package in _OPENED:
            command += ["--add-opens", f"{package}=ALL-UNNAMED"]
        command += ["--add-exports", "java.base/jdk.internal.ref=ALL-UNNAMED"]
        command += [f"-Duser.home={self._directory}", "-cp", self._classes, main, *words]
        with (self._directory / f"{main.rpartition('.')[2]}.log").open("a") as log:
            return subprocess.Popen(
                command,
                cwd=self._directory,
                env={
                    **os.environ,
                    "ROCKETMQ_HOME": str(self._home),
                    "NAMESRV_ADDR": f"127.0.0.1:{self._namesrv}",
                },
                stdin=subprocess.PIPE if is_talking else subprocess.DEVNULL,
                stdout=subprocess.PIPE if is_talking else log,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def _command(self, *words: str) -> str:
        assert self._admin.stdin is not None
        assert self._admin.stdout is not None
        self._admin.stdin.write("\t".join([*words, "-n", f"127.0.0.1:{self._namesrv}"]) + "\n")
        self._admin.stdin.flush()
        told = ""
        for line in self._admin.stdout:
            if line == "--done--\n":
                return told
            told += line
        raise AssertionError(f"{words}: {told}")


def _wait_for_port(port: int, process: "subprocess.Popen[str]") -> None:
    deadline_s = time.monotonic() + _START_S
    while time.monotonic() < deadline_s:
        assert process.poll() is None, f"ended with {process.returncode}"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise AssertionError(f"nothing listens on {port}")


if __name__ == "__main__":
    print(build())
