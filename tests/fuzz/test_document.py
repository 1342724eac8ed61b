"""Requests made from the OpenAPI document, good ones and bad ones, at a live product.

The document is of all planes. Whoever asks, no answer is a failure of the server; each has a status
and a content type that the document names, and a body of the shape it says; what the document does
not allow is refused. `make test` runs a slice of it and `make fuzz` runs for long.
"""

import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.server import ROLES, Closed, Open
from tests.rounds import rounds, seed_of_run

pytestmark = [pytest.mark.process]

CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance",
    "response_headers_conformance", "response_schema_conformance", "negative_data_rejection",
    "unsupported_method",
)  # fmt: skip
# Addresses of a slice, chosen anew in each run. Each is asked in some 25 ways, and more at random.
SLICE = {"open": 14, "admin": 12, "operator": 6, "viewer": 4, "narrow": 6}
EXAMPLES_OF_SLICE, EXAMPLES = 2, 100
RUN_S_MAX = 1_500
_OF_CPYTHON = "AST constructor recursion depth mismatch"
ROOT = Path(__file__).resolve().parents[2]
SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")


@pytest.fixture(scope="module")
def open_product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    product = Open(tmp_path_factory.mktemp("open") / "data")
    try:
        product.fill()
        yield product
    finally:
        product.product.kill_everything()


@pytest.fixture(scope="module")
def closed_product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    product = Closed(tmp_path_factory.mktemp("closed") / "data")
    try:
        yield product
    finally:
        product.product.kill_everything()


def fuzzed(
    product: Open, where: Path, *, token: str = "", examples: int, addresses: int | None = None
) -> str:
    """Send generated requests to some addresses, or all; fail with what was found.

    Return what was said.
    """
    seed = seed_of_run()
    print(f"MQWEB_TEST_SEED={seed}")
    chosen = random.Random(seed).sample(names := product.operations(token), addresses or len(names))
    command = [
        str(SCHEMATHESIS), "run", f"{product.url}/api/schema/", "--phases", "coverage,fuzzing",
        "--mode", "all", "--workers", "2", "--request-timeout", "30", "--checks", ",".join(CHECKS),
        "--max-examples", str(examples), "--seed", str(seed), "--warnings", "off", "--no-color",
        "--continue-on-failure", "--no-shrink", "--generation-with-security-parameters", "false",
        "--suppress-health-check", "all",
    ]  # fmt: skip
    command += [word for name in chosen for word in ("--include-operation-id", name)]
    if token:
        command += ["--header", f"Authorization: Bearer {token}"]
    run = subprocess.run(
        command,
        cwd=where,
        env={**os.environ, "SCHEMATHESIS_HOOKS": "tests.fuzz.hooks", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )
    said = run.stdout + run.stderr
    # CPython 3.11 now and then fails so while Hypothesis reads source: no answer is at fault.
    is_tools_own = _OF_CPYTHON in said and "Failures:" not in said
    found = re.split("=+ (?:ERRORS|FAILURES) =+", said, maxsplit=1)[-1]
    assert run.returncode == 0 or is_tools_own, found[:8_000]
    return said


def case_count(said: str) -> int:
    """Return how many requests a run has generated."""
    found = re.search(r"([\d,]+) generated", said)
    assert found is not None, said[-2_000:]
    return int(found[1].replace(",", ""))


def test_a_slice_with_access_off(open_product: Open, tmp_path: Path) -> None:
    said = fuzzed(open_product, tmp_path, examples=EXAMPLES_OF_SLICE, addresses=SLICE["open"])

    assert case_count(said) >= 100
    assert not open_product.product.events("request_failed")


@pytest.mark.parametrize("role", ROLES)
def test_a_slice_as(role: str, closed_product: Closed, tmp_path: Path) -> None:
    said = fuzzed(
        closed_product,
        tmp_path,
        token=closed_product.tokens[role],
        examples=EXAMPLES_OF_SLICE,
        addresses=SLICE[role],
    )

    assert case_count(said) >= 15


@pytest.mark.fuzz
@pytest.mark.crash
@pytest.mark.parametrize("role", ["open", *ROLES])
def test_for_long(role: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    kind = Open if role == "open" else Closed
    product = kind(tmp_path_factory.mktemp(role) / "data")
    try:
        if role == "open":
            product.fill()
        token = product.tokens[role] if isinstance(product, Closed) else ""
        said = fuzzed(product, tmp_path, token=token, examples=rounds(EXAMPLES))
        assert case_count(said) > 3_000
        assert product.product.process.poll() is None
    finally:
        product.product.kill_everything()
