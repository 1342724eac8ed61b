"""Random SQL92 filters: trees, ways to write them, messages, and a second, naive evaluator.

The evaluator shares nothing with the product but the tree: truth tables, and Decimal for numbers.
"""

import random
import re
from collections.abc import Mapping
from decimal import Decimal

import hypothesis.strategies as st

from apps.engine.filters.tree import (
    And,
    Between,
    Comparison,
    Condition,
    In,
    IsNull,
    Node,
    Not,
    Number,
    Operator,
    Or,
    Place,
    Property,
    Search,
    Signed,
    Text,
    Truth,
)

NAMES = ["a", "b", "TAGS", "_n", "$x9"]
VALUES = [
    "", "x", "X", "it's", "5", "-5", "+5", "05", "5.0", "7.25", "1e3", "1e999", "abc", "中文",
    "true", "FALSE", "nan", "inf", " 5", "5 ", "9223372036854775807", "9223372036854775808",
    "1_0", "\u0665",
]  # fmt: skip

properties = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES))
prop = st.sampled_from(NAMES).map(Property)
text = st.sampled_from(VALUES)
number = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.sampled_from([0, 5, -5, 1000, 5.0, 7.25]),
    st.floats(allow_nan=False, allow_infinity=False),
).map(Number)
numeric = st.one_of(prop, number, st.builds(Signed, prop, st.booleans()))
ORDERS = [o for o in Operator if o not in (Operator.EQUAL, Operator.UNEQUAL)]
EQUALITIES = [Operator.EQUAL, Operator.UNEQUAL]
certain = st.booleans().map(Truth)


def _between(value: Node, bounds: tuple[Node, Node], is_negated: bool) -> Condition:
    low, high = bounds
    if isinstance(low, Number) and isinstance(high, Number) and low.value > high.value:
        low, high = high, low
    return Between(value, low, high, is_negated)  # type: ignore[arg-type]


def _either_way(operator: Operator, left: Node, right: Node, is_turned: bool) -> Condition:
    return Comparison(operator, right, left) if is_turned else Comparison(operator, left, right)


leaves: st.SearchStrategy[Condition] = st.one_of(
    prop,
    st.sampled_from([True, False, None]).map(Truth),
    st.builds(Comparison, st.sampled_from(ORDERS), numeric, numeric),
    st.builds(
        _either_way,
        st.sampled_from(EQUALITIES),
        prop,
        st.one_of(prop, number, text.map(Text), certain),
        st.booleans(),
    ),
    st.builds(Comparison, st.sampled_from(EQUALITIES), text.map(Text), text.map(Text)),
    st.builds(Comparison, st.sampled_from(EQUALITIES), number, number),
    st.builds(_between, numeric, st.tuples(numeric, numeric), st.booleans()),
    st.builds(In, prop, st.lists(text, min_size=1, max_size=4).map(tuple), st.booleans()),
    st.builds(IsNull, prop, st.booleans()),
    st.builds(Search, st.sampled_from(list(Place)), prop, text, st.booleans()),
)


def _grown(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    parts = st.lists(inner, min_size=2, max_size=4).map(tuple)
    sure = inner.filter(lambda node: not isinstance(node, Property) and node != Truth(None))
    return st.one_of(
        st.builds(Not, inner),
        st.builds(And, parts),
        st.builds(Or, parts),
        st.builds(Comparison, st.sampled_from(EQUALITIES), sure, sure),
    )


conditions = st.recursive(leaves, _grown, max_leaves=12)


# --- writing -----------------------------------------------------------------------------------

# From loosely to tightly binding, as docs of RocketMQ have it.
LEVELS = {"or": 1, "and": 2, "equality": 3, "relation": 4, "unary": 5, "primary": 6}


def written(node: Node, rng: random.Random) -> str:
    """Write a tree with just the parentheses it needs, and sometimes with more."""
    return _at_least(node, "or", rng)


def _at_least(node: Node, level: str, rng: random.Random) -> str:
    own, words = _words(node, rng)
    joined = _gap(rng).join(words)
    if LEVELS[own] < LEVELS[level] or rng.random() < 0.1:
        return f"({_gap(rng)}{joined}{_gap(rng)})"
    return joined


def _words(node: Node, rng: random.Random) -> tuple[str, list[str]]:
    negation = [_cased("NOT", rng)] if getattr(node, "is_negated", False) else []
    match node:
        case Or(parts):
            return "or", _joined(parts, "OR", "and", rng)
        case And(parts):
            return "and", _joined(parts, "AND", "equality", rng)
        case Comparison(operator, left, right):
            level = "equality" if operator in EQUALITIES else "relation"
            inner = "relation" if level == "equality" else "unary"
            return level, [_at_least(left, inner, rng), operator, _at_least(right, inner, rng)]
        case IsNull(found):
            words = [_cased("IS", rng), *negation, _cased("NULL", rng)]
            return "equality", [_at_least(found, "relation", rng), *words]
        case Between(value, low, high):
            bounds = [
                _at_least(low, "unary", rng),
                _cased("AND", rng),
                _at_least(high, "unary", rng),
            ]
            words = [*negation, _cased("BETWEEN", rng), *bounds]
            return "relation", [_at_least(value, "unary", rng), *words]
        case In(found, texts):
            listed = f"{_gap(rng)},{_gap(rng)}".join(map(_quoted, texts))
            words = [*negation, _cased("IN", rng), f"({listed})"]
            return "relation", [_at_least(found, "unary", rng), *words]
        case Search(place, found, wanted):
            words = [*negation, _cased(place, rng), _quoted(wanted)]
            return "relation", [_at_least(found, "unary", rng), *words]
        case Not(operand):
            return "unary", [_cased("NOT", rng), _at_least(operand, "unary", rng)]
        case Signed(found, is_negative):
            return "unary", ["-" if is_negative else "+", found.name]
        case Number(value):
            return "unary", [repr(value)]
        case Truth(value):
            return "primary", [_cased("NULL" if value is None else str(value).upper(), rng)]
        case Text(value):
            return "primary", [_quoted(value)]
        case Property(name):
            return "primary", [name]
    raise AssertionError(node)


def _joined(parts: tuple[Node, ...], word: str, level: str, rng: random.Random) -> list[str]:
    words = [_at_least(parts[0], level, rng)]
    for part in parts[1:]:
        words += [_cased(word, rng), _at_least(part, level, rng)]
    return words


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _cased(word: str, rng: random.Random) -> str:
    return "".join(rng.choice((c.upper(), c.lower())) for c in word)


def _gap(rng: random.Random) -> str:
    return rng.choice((" ", " ", " ", "\n", "\t ", " /* 'AND' */ ", " -- OR (\n"))


# --- meaning -----------------------------------------------------------------------------------

T, F, U = "T", "F", "U"
OPPOSITE = {T: F, F: T, U: U}
BOTH = {
    (T, T): T, (T, F): F, (T, U): U,
    (F, T): F, (F, F): F, (F, U): F,
    (U, T): U, (U, F): F, (U, U): U,
}  # fmt: skip
EITHER = {
    (T, T): T, (T, F): T, (T, U): T,
    (F, T): T, (F, F): F, (F, U): U,
    (U, T): T, (U, F): U, (U, U): U,
}  # fmt: skip
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def meaning(node: Condition, message: Mapping[str, str]) -> str:
    """Return T, F or U: what a condition says of a message."""
    match node:
        case Truth(value):
            return {True: T, False: F, None: U}[value]
        case Property(name):
            return {"true": T, "false": F}.get(message.get(name, "").lower(), U)
        case Not(operand):
            return OPPOSITE[meaning(operand, message)]
        case And(parts):
            result = T
            for part in parts:
                result = BOTH[result, meaning(part, message)]
            return result
        case Or(parts):
            result = F
            for part in parts:
                result = EITHER[result, meaning(part, message)]
            return result
        case IsNull(found, is_negated):
            return _truth((found.name not in message) != is_negated)
        case In(found, texts, is_negated):
            if found.name not in message:
                return U
            return _truth(any(message[found.name] == text for text in texts) != is_negated)
        case Search(place, found, wanted, is_negated):
            if found.name not in message or wanted == "":
                return F
            return _truth(_is_found(place, message[found.name], wanted) != is_negated)
        case Between(value, low, high, is_negated):
            inside = BOTH[
                _compared(Operator.GREATER_OR_EQUAL, value, low, message),
                _compared(Operator.LESS_OR_EQUAL, value, high, message),
            ]
            return OPPOSITE[inside] if is_negated else inside
        case Comparison(operator, left, right):
            return _compared(operator, left, right, message)
    raise AssertionError(node)


def _truth(value: bool) -> str:
    return T if value else F


def _is_found(place: Place, value: str, wanted: str) -> bool:
    starts = [at for at in range(len(value)) if value[at : at + len(wanted)] == wanted]
    if place is Place.STARTSWITH:
        return 0 in starts
    if place is Place.ENDSWITH:
        return len(value) - len(wanted) in starts
    return starts != []


def _compared(operator: Operator, left: Node, right: Node, message: Mapping[str, str]) -> str:
    sides = (left, right)
    if operator in ORDERS or any(isinstance(side, (Number, Signed)) for side in sides):
        one, other = (_decimal(side, message) for side in sides)
        if one is None or other is None:
            return U
        order = (one > other) - (one < other)
    elif all(isinstance(side, (Property, Text)) for side in sides):
        texts = [side.value if isinstance(side, Text) else message.get(side.name) for side in sides]
        if None in texts:
            return U
        order = 0 if texts[0] == texts[1] else 1
    else:
        truths = [meaning(side, message) for side in sides]  # type: ignore[arg-type]
        if U in truths:
            return U
        order = 0 if truths[0] == truths[1] else 1
    return _truth(
        {
            "=": order == 0, "<>": order != 0, "<": order < 0,
            "<=": order <= 0, ">": order > 0, ">=": order >= 0,
        }[operator]
    )  # fmt: skip


def _decimal(node: Node, message: Mapping[str, str]) -> Decimal | None:
    match node:
        case Number(value):
            return Decimal(value)
        case Signed(found, is_negative):
            value = _decimal(found, message)
            return value if value is None or not is_negative else -value
        case Property(name):
            text = message.get(name, "")
            if not _DECIMAL.fullmatch(text):
                return None
            if text.lstrip("+-").isdigit():
                whole = Decimal(text)
                return whole if -(2**63) <= whole < 2**63 else None
            number = Decimal(float(text))
            return number if number.is_finite() else None
    raise AssertionError(node)
