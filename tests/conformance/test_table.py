"""The table of docs/ROCKETMQ.md is what the kept results say."""

import json

import pytest

from tests.conformance import clients, results


def test_the_document_has_the_table_of_the_kept_results() -> None:
    text = results.DOCUMENT.read_text()

    assert results.written(text, json.loads(results.KEPT.read_text())) == text


def test_the_kept_results_are_those_of_the_pinned_versions() -> None:
    kept = json.loads(results.KEPT.read_text())

    assert kept["against"] == "mqweb"
    assert kept["clients"] == {
        name: f"{client.package} {client.version}" for name, client in clients.CLIENTS.items()
    }


@pytest.mark.parametrize("name", clients.CLIENTS)
def test_the_pinned_version_is_the_one_of_the_drivers_manifest(name: str) -> None:
    client = clients.CLIENTS[name]
    manifests = ("requirements.txt", "package.json", "pom.xml", "go.mod", "Cargo.toml")
    directory = results.KEPT.parent / "drivers" / client.name
    (manifest,) = [directory / name for name in manifests if (directory / name).exists()]

    assert client.version in manifest.read_text()
    assert client.package.rpartition("/")[2] in manifest.read_text()


def test_a_feature_that_failed_anywhere_does_not_hold() -> None:
    document = {
        "clients": {"python": "a 1", "node": "b 2"},
        "features": {
            "sending": {
                "python": {"outcome": "passed", "reason": ""},
                "node": {"outcome": "failed", "reason": "it ended"},
            }
        },
    }

    assert results.table(document).splitlines() == [
        "| | a 1 | b 2 |",
        "|---|---|---|",
        "| sending | yes | **no** (1) |",
        "",
        "1. it ended",
    ]
