"""What transport options say, and which values are refused."""

from typing import Any

import pytest
from mqclient.celery.options import Options
from mqclient.errors import InvalidArgument, InvalidName
from mqclient.values import AckMode


def test_options_of_kombu_and_of_other_transports_are_left_alone() -> None:
    options = Options.of({"max_retries": 3, "visibility_timeout": 3600, "visibility_timeout_s": 5})

    assert options == Options(visibility_timeout_s=5)
    assert options.visibility_timeout_ms == 5_000


def test_values_may_come_as_a_settings_file_has_them() -> None:
    options = Options.of({"ack": "async", "priority_steps": [0, 5]})

    assert options.ack is AckMode.ASYNC
    assert options.priority_steps == (0, 5)


@pytest.mark.parametrize(
    "wrong",
    [
        {"group": "a group"},
        {"priority_steps": ()},
        {"priority_steps": (3, 0)},
        {"priority_steps": (0, 0)},
        {"priority_steps": (0, 256)},
        {"priority_steps": (-1, 0)},
        {"visibility_timeout_s": 0.5},
        {"wait_ms": 0},
        {"wait_ms": 30_001},
        {"receive_max": 0},
        {"timeout_s": 0},
        {"outage_s": -1},
        {"ack": "oneway"},
        {"ack": "twice"},
    ],
    ids=str,
)
def test_a_value_that_cannot_be_served_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises((InvalidArgument, InvalidName)):
        Options.of(wrong)
