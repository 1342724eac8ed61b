"""Names of files come from users, and reach a header."""

import re

from hypothesis import example, given
from hypothesis import strategies as st

from apps.core import attachments

PLAIN = re.compile(r'attachment; filename="[A-Za-z0-9._-]{0,180}"')


@given(st.text())
@example('a"; filename="b.exe')
@example("\x1d\x07\r\nSet-Cookie: a=b")
@example("x" * 10_000)
def test_a_header_is_plain_whatever_a_file_is_named_after(name: str) -> None:
    found = attachments.headers(f"{name}.csv")["Content-Disposition"]

    assert PLAIN.fullmatch(found)
    assert found.endswith('.csv"')


def test_a_plain_name_stays_as_it_is() -> None:
    found = attachments.headers("orders-2026-03-01_x.jsonl")

    assert found["Content-Disposition"] == 'attachment; filename="orders-2026-03-01_x.jsonl"'
    assert found["X-Content-Type-Options"] == "nosniff"
