"""What generated requests leave alone, so that a run is of requests and not of waiting.

Loaded by schemathesis. A long poll may wait for half a minute by the contract, and an account or
token of the run itself would end the run where it is deleted.
"""

from typing import Any

import schemathesis

WAIT_MS_MAX = 20
OURS = "fuzz-"


@schemathesis.hook
def before_call(_context: Any, case: Any, _kwargs: Any) -> None:
    """Have a request that waits wait for a moment."""
    if isinstance(case.body, dict) and isinstance(case.body.get("wait_ms"), int):
        case.body["wait_ms"] = min(case.body["wait_ms"], WAIT_MS_MAX)
    if isinstance(case.query, dict) and str(case.query.get("wait_ms", "")).isdigit():
        case.query["wait_ms"] = str(min(int(case.query["wait_ms"]), WAIT_MS_MAX))


@schemathesis.hook
def filter_case(_context: Any, case: Any) -> bool:
    """Pass over what would take the run's own rights away."""
    named = [str(value) for value in (case.path_parameters or {}).values()]
    return case.method == "GET" or not any(name.startswith(OURS) for name in named)
