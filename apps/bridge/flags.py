"""Flags of `runmq` and `broker`. Each is another way to write an environment variable."""

import argparse
from collections.abc import Mapping, Sequence
from types import MappingProxyType

COMMANDS = ("runmq", "broker")

FLAGS: Mapping[str, str] = MappingProxyType(
    {
        "--data": "MQWEB_DATA",
        "--host": "MQWEB_HOST",
        "--port": "MQWEB_PORT",
        "--grpc-port": "MQWEB_GRPC_PORT",
        "--database-url": "DATABASE_URL",
        "--celery-broker-url": "CELERY_BROKER_URL",
        "--worker-processes": "MQWEB_WORKER_PROCESSES",
        "--auth": "MQWEB_AUTH",
        "--ack": "MQWEB_ACK",
        "--flush-interval-ms": "MQWEB_FLUSH_INTERVAL_MS",
        "--segment-bytes": "MQWEB_SEGMENT_BYTES",
        "--read-threads": "MQWEB_READ_THREADS",
        "--spark": "MQWEB_SPARK",
        "--spark-master": "MQWEB_SPARK_MASTER",
        "--allowed-hosts": "MQWEB_ALLOWED_HOSTS",
        "--failpoints": "MQWEB_FAILPOINTS",
        "--log-level": "MQWEB_LOG_LEVEL",
    }
)

_WITHOUT_VALUE: Mapping[str, str] = MappingProxyType({"--spark": "on"})
"""What flags mean that are given without a value."""

SWITCHES: Mapping[str, str] = MappingProxyType(
    {"--take-over": "end the process that holds the store, and take its place (Linux)"}
)
"""What is asked for once, by a person, and is no setting."""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Declare the flags, so that `--help` lists them and a misspelt one is refused."""
    for flag, variable in FLAGS.items():
        alone = _WITHOUT_VALUE.get(flag)
        parser.add_argument(
            flag,
            dest=variable,
            metavar="VALUE",
            nargs=None if alone is None else "?",
            const=alone,
            help=f"overrides {variable}",
        )


def add_switches(parser: argparse.ArgumentParser) -> None:
    """Declare the switches."""
    for switch, sentence in SWITCHES.items():
        parser.add_argument(switch, action="store_true", help=sentence)


def variables_of(arguments: Sequence[str]) -> dict[str, str]:
    """Return the variables that the flags of a command line set; none for other commands.

    Settings are read once, on import, so this must be done before Django is loaded.
    """
    if not arguments or arguments[0] not in COMMANDS:
        return {}
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    add_flags(parser)
    known, _ = parser.parse_known_args(arguments[1:])
    return {name: value for name, value in vars(known).items() if value is not None}
