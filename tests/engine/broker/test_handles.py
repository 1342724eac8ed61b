"""Receipt handles: ours are read, others are told apart."""

import pytest

from apps.engine.broker.handles import Handle, Handles


def test_a_handle_of_one_message_or_a_run_reads_back() -> None:
    handles = Handles("store")
    token = handles.token("g", 300, 5)

    assert token.startswith("12c.5-")
    assert handles.parse("g", f"{token}:7") == Handle(lease=300, epoch=5, first=7, last=7)
    assert handles.parse("g", f"{token}:7-90") == Handle(lease=300, epoch=5, first=7, last=90)


def test_a_handle_of_another_group_store_or_lease_is_not_ours() -> None:
    token = Handles("store").token("g", 300, 5)

    assert Handles("store").parse("h", f"{token}:7") is None
    assert Handles("other").parse("g", f"{token}:7") is None
    assert Handles("store").parse("g", f"12d{token[3:]}:7") is None
    assert Handles("store").parse("g", token.replace(".5-", ".6-") + ":7") is None


@pytest.mark.parametrize(
    "text",
    ["", ":", "x", "12c.5-00000000", "{}:", "{}:-1", "{}:9-7", "{}:7-", "{}:1:2", "{}:\uff11"],
)
def test_what_is_not_a_handle_is_refused(text: str) -> None:
    handles = Handles("store")

    assert handles.parse("g", text.format(handles.token("g", 1, 1))) is None
