"""Foreign files under static/vendor are the ones that were published, each with its licence."""

import hashlib
from pathlib import Path

import pytest

VENDOR = Path(__file__).resolve().parents[2] / "static" / "vendor"
SUMS = {
    name: digest
    for digest, name in (line.split() for line in (VENDOR / "SHA256SUMS").read_text().splitlines())
}
PACKAGES = sorted(path for path in VENDOR.iterdir() if path.is_dir())


def test_every_file_has_a_sum_and_every_sum_a_file() -> None:
    files = {str(path.relative_to(VENDOR)) for path in VENDOR.rglob("*/*") if path.is_file()}

    assert files == SUMS.keys() != set()


@pytest.mark.parametrize("name", sorted(SUMS))
def test_a_file_is_unchanged(name: str) -> None:
    assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == SUMS[name]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_a_package_brings_its_licence_and_is_named_in_the_list(package: Path) -> None:
    assert (package / "LICENSE").read_text().strip()
    assert f"`{package.name}/" in (VENDOR / "README.md").read_text()
