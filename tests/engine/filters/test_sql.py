"""SQL92 filters: what they say of a message, and that they are read as they were meant."""

import random
import sys
import threading
from collections.abc import Mapping

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from apps.engine.errors import InvalidFilter
from apps.engine.filters.evaluate import compiled, number_of
from apps.engine.filters.lexer import KEYWORDS
from apps.engine.filters.parser import parse
from apps.engine.filters.tree import (
    And,
    Comparison,
    Condition,
    Not,
    Number,
    Operator,
    Or,
    Property,
    Text,
    Truth,
)
from apps.engine.limits import FILTER_CHARACTERS_MAX, FILTER_NESTING_MAX, FILTER_TERMS_MAX
from tests.engine.filters.sql import F, T, U, conditions, meaning, properties, written

NAMES = {True: T, False: F, None: U}


def said(text: str, **message: str) -> bool | None:
    return compiled(parse(text))(message)


# --- against a second evaluator ----------------------------------------------------------------


@settings(max_examples=500, deadline=None)
@given(conditions, properties)
def test_a_filter_means_what_the_truth_tables_say(
    condition: Condition, message: Mapping[str, str]
) -> None:
    found = compiled(condition)(message)

    assert NAMES[found] == meaning(condition, message)


@settings(max_examples=500, deadline=None)
@given(conditions, st.integers(0, 1 << 32))
def test_a_filter_is_read_as_it_was_written(condition: Condition, seed: int) -> None:
    text = written(condition, random.Random(seed))

    assert parse(text) == condition


@given(conditions, properties, st.integers(0, 1 << 32))
def test_a_filter_and_its_opposite_never_take_the_same_message(
    condition: Condition, message: Mapping[str, str], seed: int
) -> None:
    text = written(condition, random.Random(seed))

    takes, refuses = said(f"({text})", **message), said(f"NOT ({text})", **message)

    assert refuses is (None if takes is None else not takes)


# --- three values ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 'x'", None),
        ("a <> 'x'", None),
        ("'x' = a", None),
        ("NOT (a = 'x')", None),
        ("a = b", None),
        ("a > 5", None),
        ("a BETWEEN 1 AND 2", None),
        ("a NOT BETWEEN 1 AND 2", None),
        ("a IN ('x')", None),
        ("a NOT IN ('x')", None),
        ("-a = 1", None),
        ("a", None),
        ("a = TRUE", None),
        ("a IS NULL", True),
        ("a IS NOT NULL", False),
        ("a IS NULL OR a = 'x'", True),
        ("a = 'x' AND TRUE", None),
        ("a = 'x' AND FALSE", False),
        ("a = 'x' OR TRUE", True),
        ("a = 'x' OR FALSE", None),
        ("NULL", None),
        ("NULL OR TRUE", True),
        ("n BETWEEN 1 AND a", None),
        ("n BETWEEN 9 AND a", False),
        ("n NOT BETWEEN 9 AND a", True),
    ],
)
def test_a_property_a_message_does_not_have_is_unknown(text: str, expected: bool | None) -> None:
    assert said(text, n="5") is expected


@pytest.mark.parametrize("word", ["CONTAINS", "STARTSWITH", "ENDSWITH"])
@pytest.mark.parametrize("negation", ["", "NOT "])
def test_a_search_is_false_where_the_property_is_missing_or_the_text_empty(
    word: str, negation: str
) -> None:
    assert said(f"a {negation}{word} 'x'") is False
    assert said(f"a {negation}{word} ''", a="x") is False
    assert said(f"NOT (a {negation}{word} 'x')") is True


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a CONTAINS 'bc'", True),
        ("a CONTAINS 'ac'", False),
        ("a NOT CONTAINS 'ac'", True),
        ("a STARTSWITH 'ab'", True),
        ("a NOT STARTSWITH 'ab'", False),
        ("a ENDSWITH 'cd'", True),
        ("a ENDSWITH 'ab'", False),
        ("a CONTAINS 'ABCD'", False),
    ],
)
def test_a_search_looks_for_a_text_in_a_property(text: str, expected: bool) -> None:
    assert said(text, a="abcd") is expected


@pytest.mark.parametrize(
    ("value", "text", "expected"),
    [
        ("5", "a = 5", True),
        ("5.0", "a = 5", True),
        ("05", "a = 5", True),
        ("5", "a = 5.0", True),
        ("5", "a = '5.0'", False),
        ("five", "a = 5", None),
        ("five", "a <> 5", None),
        ("", "a < 5", None),
        (" 5", "a = 5", None),
        ("5 ", "a = 5", None),
        ("1_0", "a = 10", None),
        ("0x5", "a = 5", None),
        ("\u0665", "a = 5", None),
        ("nan", "a <> 5", None),
        ("inf", "a > 5", None),
        ("1e999", "a > 5", None),
        ("-5", "-a = 5", True),
        ("-5", "+a = -5", True),
        ("x", "-a = 5", None),
        ("9223372036854775807", "a = 9223372036854775807", True),
        # A double is not near enough to be the same.
        ("9223372036854775807", "a = 9223372036854775808.0", False),
        ("9223372036854775808", "a > 0", None),
        ("-9223372036854775808", "a = -9223372036854775808", True),
        ("true", "a", True),
        ("True", "a = TRUE", True),
        ("FALSE", "a = FALSE", True),
        ("false", "NOT a", True),
        ("yes", "a", None),
        ("yes", "a <> TRUE", None),
    ],
)
def test_a_property_is_read_as_what_it_is_compared_with(
    value: str, text: str, expected: bool | None
) -> None:
    assert said(text, a=value) is expected


def test_two_properties_are_equal_as_texts_and_ordered_as_numbers() -> None:
    assert said("a = b", a="5", b="5.0") is False
    assert said("a = b", a="x", b="x") is True
    assert said("a <= b", a="5", b="5.0") is True
    assert said("a < b", a="x", b="y") is None


def test_between_has_both_ends() -> None:
    inside = [n for n in range(10) if said("a BETWEEN 3 AND 5", a=str(n))]
    outside = [n for n in range(10) if said("a NOT BETWEEN 3 AND 5", a=str(n))]

    assert (inside, outside) == ([3, 4, 5], [0, 1, 2, 6, 7, 8, 9])


def test_tags_and_keys_are_properties() -> None:
    message = {"TAGS": "paid", "KEYS": "4711 4712"}

    assert compiled(parse("TAGS IN ('paid','shipped') AND KEYS CONTAINS '4712'"))(message) is True


def test_property_names_have_a_case_and_keywords_have_none() -> None:
    assert said("Region = 'x' and REGION is null", Region="x") is True


@given(st.text())
def test_a_number_in_a_property_is_what_python_reads_or_nothing(text: str) -> None:
    found = number_of(text)

    if found is not None:
        assert found == float(text) or found == int(text)


# --- precedence --------------------------------------------------------------------------------

A, B, C = (Comparison(Operator.EQUAL, Property(n), Text("x")) for n in "abc")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a = 'x' OR b = 'x' AND c = 'x'", Or((A, And((B, C))))),
        ("a = 'x' AND b = 'x' OR c = 'x'", Or((And((A, B)), C))),
        ("(a = 'x' OR b = 'x') AND c = 'x'", And((Or((A, B)), C))),
        ("NOT (a = 'x') AND b = 'x'", And((Not(A), B))),
        ("NOT a AND b = 'x'", And((Not(Property("a")), B))),
        ("a = 'x' AND b = 'x' AND c = 'x'", And((A, B, C))),
        ("(a = 'x' AND b = 'x') AND c = 'x'", And((And((A, B)), C))),
        (
            "a > 5 = TRUE",
            Comparison(
                Operator.EQUAL,
                Comparison(Operator.GREATER, Property("a"), Number(5)),
                Truth(True),
            ),
        ),
        (
            "NOT a = TRUE",
            Comparison(Operator.EQUAL, Not(Property("a")), Truth(True)),
        ),
        ("a = - - 5", Comparison(Operator.EQUAL, Property("a"), Number(5))),
        ("a = -(5)", Comparison(Operator.EQUAL, Property("a"), Number(-5))),
        ("(((a))) = ('x')", A),
    ],
)
def test_operators_bind_as_in_rocketmq(text: str, tree: Condition) -> None:
    assert parse(text) == tree


@pytest.mark.parametrize(
    "text",
    [
        "NOT a = 'x'",
        "NOT a = b",
        "NOT a > 5",
        "NOT a IN ('x')",
        "NOT a IS NULL",
        "NOT a CONTAINS 'x'",
    ],
)
def test_a_not_that_binds_tighter_than_it_looks_is_refused(text: str) -> None:
    with pytest.raises(InvalidFilter):
        parse(text)


# --- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "at", "what"),
    [
        ("", 1, "expected a property, a value or a condition, found the end"),
        ("a =", 4, "found the end"),
        ("a = 'x' b", 9, "expected AND, OR or the end, found b"),
        ("a = 'x' AND", 12, "found the end"),
        ("AND a", 1, "found AND"),
        ("(a = 'x'", 9, r"expected \), found the end"),
        ("a = 'x')", 8, r"found \)"),
        ("()", 2, r"found \)"),
        ("'x'", 1, "expected a condition, found a value"),
        ("5 OR TRUE", 1, "expected a condition, found a value"),
        ("TRUE AND 5", 10, "expected a condition, found a value"),
        ("NOT 'x'", 5, "expected a condition, found a value"),
        ("-a", 1, "expected a condition, found a value"),
        ("a > 'x'", 5, "texts have no order"),
        ("'x' <= a", 1, "texts have no order"),
        ("a BETWEEN 'a' AND 'b'", 11, "texts have no order"),
        ("-'x' = 5", 2, "texts have no order"),
        ("a > TRUE", 5, "expected a number or a property, found a condition"),
        ("(a > 5) > 3", 1, "expected a number or a property, found a condition"),
        ("-TRUE = 5", 2, "expected a number or a property, found a condition"),
        ("a > 5 > 3", 7, "comparisons do not chain"),
        ("a = b = c", 7, "comparisons do not chain"),
        ("a IS NULL = TRUE", 11, "comparisons do not chain"),
        ("a = NULL", 5, "NULL equals nothing"),
        ("NULL <> a", 1, "NULL equals nothing"),
        ("5 = 'x'", 3, "a number cannot be compared with a text"),
        ("5 = TRUE", 3, "a condition cannot be compared with a number"),
        ("a = (b = 'x')", 3, "a condition cannot be compared with a property"),
        ("'x' = (b = 'x')", 5, "a condition cannot be compared with a text"),
        ("a BETWEEN 5 AND 3", 11, "the lower bound of BETWEEN is above"),
        ("a BETWEEN NULL AND 3", 11, "found a condition"),
        ("a BETWEEN 3 OR 5", 13, "expected AND, found OR"),
        ("a BETWEEN 3", 12, "expected AND, found the end"),
        ("a IN ()", 7, r"expected a text in quotes, found \)"),
        ("a IN ('x' 'y')", 11, r"expected \), found a text"),
        ("a IN ('x',)", 11, "expected a text in quotes"),
        ("a IN (5)", 7, "expected a text in quotes, found a number"),
        ("a IN 'x'", 6, r"expected \(, found a text"),
        ("'x' IN ('x')", 1, "IN asks about a property"),
        ("5 IS NULL", 1, "IS NULL asks about a property"),
        ("a IS 5", 6, "expected NULL, found a number"),
        ("a IS NOT", 9, "expected NULL, found the end"),
        ("a NOT 5", 7, "expected BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH after NOT"),
        ("a NOT 'IN'", 7, "after NOT, found a text"),
        ("a NOT", 6, "after NOT, found the end"),
        ("5 CONTAINS '5'", 1, "CONTAINS asks about a property"),
        ("a CONTAINS b", 12, "expected a text in quotes, found b"),
        ("a LIKE 'x%'", 3, "expected AND, OR or the end, found LIKE"),
        ("a + 1 > 5", 3, r"found \+"),
        ("a - 1 > 5", 3, "found -"),
        ("a == 'x'", 4, "found ="),
        ("a = 9223372036854775808", 5, "does not fit in 64 bits"),
        ("a = -(9223372036854775808)", 7, "does not fit in 64 bits"),
        ("a = - -9223372036854775808", 5, "does not fit in 64 bits"),
        ("a = +9223372036854775808", 6, "does not fit in 64 bits"),
        ("a = 5x", 6, "expected AND, OR or the end, found x"),
    ],
)
def test_what_is_no_filter_is_refused_at_its_place(text: str, at: int, what: str) -> None:
    with pytest.raises(InvalidFilter, match=f"^at character {at}: .*{what}"):
        parse(text)


# --- limits ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("opening", "closing"), [("(", ")"), ("NOT ", ""), ("NOT (", ")"), ("TRUE AND (FALSE OR ", ")")]
)
def test_nesting_is_bounded(opening: str, closing: str) -> None:
    levels = opening.count("(") + opening.count("NOT")
    deepest = FILTER_NESTING_MAX // levels
    nested = opening * deepest + "a = 'x'" + closing * deepest

    # With `NOT a = 'x'` the types do not fit; a property alone does.
    fitting = nested if closing else nested.replace("a = 'x'", "a")
    assert parse(fitting)
    with pytest.raises(InvalidFilter, match="nested deeper than 32 levels"):
        parse(opening + fitting + closing)


def test_signs_count_as_nesting() -> None:
    assert parse("a = " + "- " * FILTER_NESTING_MAX + "b")
    with pytest.raises(InvalidFilter, match="nested deeper"):
        parse("a = " + "- " * (FILTER_NESTING_MAX + 1) + "b")


def test_the_deepest_filter_leaves_half_of_the_stack() -> None:
    """The costliest level in frames: OR, AND, equality and a parenthesis."""
    level = "FALSE OR TRUE AND TRUE = ("
    text = level * FILTER_NESTING_MAX + "a = 'x'" + ")" * FILTER_NESTING_MAX
    found: list[bool | None] = []
    limit = sys.getrecursionlimit()
    thread = threading.Thread(target=lambda: found.append(compiled(parse(text))({"a": "x"})))

    sys.setrecursionlimit(450)
    try:
        thread.start()
        thread.join()
    finally:
        sys.setrecursionlimit(limit)

    assert found == [True]


def test_terms_are_bounded() -> None:
    def listed(count: int) -> str:
        return "a IN (" + ",".join(["''"] * count) + ")"

    assert parse(listed(FILTER_TERMS_MAX - 1))
    with pytest.raises(InvalidFilter, match="more than 1024 terms"):
        parse(listed(FILTER_TERMS_MAX))


# --- hostile text ------------------------------------------------------------------------------

SCRAPS = [
    *sorted(KEYWORDS), "a", "b", "'x'", "'", "''", "5", "1.5", "1e", "9" * 20, "1e999", "(", ")",
    ",", "=", "<>", "<", ">=", "+", "-", "--", "/*", "*/", "\n", " ", "\x00", "\u202e", "中",
    "\ud800", "!",
]  # fmt: skip


def reads_or_refuses(text: str) -> None:
    """Fail with anything but InvalidFilter, or with an error nobody could send on."""
    try:
        test = compiled(parse(text))
    except InvalidFilter as error:
        told = str(error)
    else:
        told = NAMES[test({"a": "x", "b": "\ud800"})]

    assert told.isascii()
    assert told.isprintable()


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(SCRAPS), max_size=40).map(" ".join))
def test_any_sequence_of_tokens_is_a_filter_or_refused(text: str) -> None:
    reads_or_refuses(text)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_a_filter_or_refused(text: str) -> None:
    reads_or_refuses(text)


@settings(max_examples=200, deadline=None)
@given(conditions, st.integers(0, 1 << 32), st.integers(0, 1 << 32))
def test_a_filter_cut_short_or_with_a_character_changed_is_a_filter_or_refused(
    condition: Condition, seed: int, place: int
) -> None:
    rng = random.Random(seed)
    text = written(condition, rng)
    at = place % len(text)

    reads_or_refuses(text[:at])
    reads_or_refuses(text[:at] + rng.choice(SCRAPS) + text[at + 1 :])


@pytest.mark.parametrize(
    "scrap",
    ["(", ")", "'", "-", "+", "/*", "NOT ", "a ", "1", "1e", ".", "=", "a=", "''", "\x00", "中"],
)
def test_a_long_run_of_anything_is_refused(scrap: str) -> None:
    text = scrap * (FILTER_CHARACTERS_MAX // len(scrap))

    with pytest.raises(InvalidFilter):
        parse(text)
