"""The command `mq`: parses, calls one command, turns errors into one line and an exit code.

0 done   1 refused   2 wrong usage   3 broker not reachable or busy   4 outcome unknown
130 interrupted   141 nobody reads the output
"""

import os
import sys
from collections.abc import Sequence

from mqclient.cli.arguments import parser
from mqclient.errors import MqError

EXIT_REFUSED = 1
EXIT_TRY_AGAIN = 3
EXIT_UNKNOWN = 4
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    chosen = parser().parse_args(arguments)
    try:
        chosen.run(chosen)
        sys.stdout.flush()
    except MqError as error:
        _say(f"mq: {error} [{error.problem_code}]")
        if error.outcome == "unknown":
            return EXIT_UNKNOWN
        return EXIT_TRY_AGAIN if error.retriable else EXIT_REFUSED
    except KeyboardInterrupt:
        _say("mq: interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The interpreter flushes at its end too, and would complain there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except OSError as error:
        _say(f"mq: {error}")
        return EXIT_REFUSED
    return 0


def _say(line: str) -> None:
    sys.stderr.write(" ".join(line.split()) + "\n")
