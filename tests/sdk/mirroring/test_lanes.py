"""Lanes: what shares a key goes one after the other, and what fails holds its own lane only."""

import threading

import pytest
from mqclient.mirroring.lanes import Lanes, lanes_of


def test_a_key_has_a_lane_in_order_and_what_has_no_key_one_each() -> None:
    items = ["a1", "b1", "-1", "a2", "-2", "b2"]

    lanes = lanes_of(items, lambda item: None if item[0] == "-" else item[0])

    assert lanes == [["a1", "a2"], ["b1", "b2"], ["-1"], ["-2"]]


def test_lanes_are_carried_at_once_and_each_in_order() -> None:
    carried: list[str] = []
    both_run = threading.Barrier(2, timeout=30)

    def carry(item: str) -> None:
        if item.endswith("1"):
            both_run.wait()
        carried.append(item)

    with Lanes(carry, key_of=lambda item: item[0], in_flight=2) as lanes:
        lanes.carry_out(["a1", "a2", "b1", "b2"])

    assert [item for item in carried if item[0] == "a"] == ["a1", "a2"]
    assert [item for item in carried if item[0] == "b"] == ["b1", "b2"]


def test_what_follows_a_failure_in_its_lane_is_not_carried() -> None:
    carried: list[str] = []

    def carry(item: str) -> None:
        if item == "a1":
            raise ValueError(item)
        carried.append(item)

    with (
        Lanes(carry, key_of=lambda item: item[0], in_flight=2) as lanes,
        pytest.raises(ValueError, match="a1"),
    ):
        lanes.carry_out(["a1", "a2", "b1", "b2"])

    assert carried == ["b1", "b2"]
