"""The tree of a SQL92 filter to a function of a message's properties. Knows no text of filters.

Logic has three values: True, False, and None for unknown. Only what is True matches.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import assert_never

from apps.engine.filters.lexer import FLOAT_PATTERN, INTEGER_MAX
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

Properties = Mapping[str, str]
Test = Callable[[Properties], bool | None]
_Value = int | float | str | bool | None
_Reader = Callable[[Properties], _Value]
_NumberReader = Callable[[Properties], int | float | None]

_INTEGER = re.compile(r"[+-]?[0-9]{1,64}")
_FLOAT = re.compile(rf"[+-]?(?:{FLOAT_PATTERN})")
_TRUTHS = {"true": True, "false": False}


def compiled(condition: Condition) -> Test:
    """Return a function that says of a message's properties whether the condition holds."""
    match condition:
        case Property(name):
            return lambda properties: truth_of(properties.get(name))
        case Truth(value):
            return lambda _: value
        case Not(operand):
            return _opposite(compiled(operand))
        case And(parts):
            return _all([compiled(part) for part in parts])
        case Or(parts):
            return _any([compiled(part) for part in parts])
        case Comparison():
            return _comparison(condition)
        case Between():
            return _between(condition)
        case In(Property(name), texts, is_negated):
            return _membership(name, frozenset(texts), is_negated)
        case IsNull(Property(name), is_negated):
            return lambda properties: (name in properties) is is_negated
        case Search():
            return _search(condition)
    assert_never(condition)


def number_of(text: str | None) -> int | float | None:
    """Return the number a property is, signed and written as in a filter; None for any other."""
    if text is None:
        return None
    if _INTEGER.fullmatch(text):
        integer = int(text)
        return integer if -INTEGER_MAX - 1 <= integer <= INTEGER_MAX else None
    if _FLOAT.fullmatch(text):
        value = float(text)
        return value if math.isfinite(value) else None
    return None


def truth_of(text: str | None) -> bool | None:
    """Return what a property says where it stands for a condition: `true`, `false`, in any case."""
    return None if text is None else _TRUTHS.get(text.lower())


def _opposite(test: Test) -> Test:
    def holds(properties: Properties) -> bool | None:
        found = test(properties)
        return None if found is None else not found

    return holds


def _all(tests: list[Test]) -> Test:
    def holds(properties: Properties) -> bool | None:
        result: bool | None = True
        for test in tests:
            found = test(properties)
            if found is False:
                return False
            if found is None:
                result = None
        return result

    return holds


def _any(tests: list[Test]) -> Test:
    def holds(properties: Properties) -> bool | None:
        result: bool | None = False
        for test in tests:
            found = test(properties)
            if found is True:
                return True
            if found is None:
                result = None
        return result

    return holds


def _comparison(comparison: Comparison) -> Test:
    left, right = _readers(comparison)
    compare = _COMPARE[comparison.operator]

    def holds(properties: Properties) -> bool | None:
        one = left(properties)
        if one is None:
            return None
        other = right(properties)
        return None if other is None else compare(one, other)

    return holds


def _between(between: Between) -> Test:
    value, low, high = _number(between.value), _number(between.low), _number(between.high)
    is_negated = between.is_negated

    def holds(properties: Properties) -> bool | None:
        found = value(properties)
        if found is None:
            return None
        lowest, highest = low(properties), high(properties)
        if (lowest is not None and found < lowest) or (highest is not None and found > highest):
            return is_negated
        return None if lowest is None or highest is None else not is_negated

    return holds


# Both values have one type, and it has the order that is asked for: the readers see to it.
_COMPARE: dict[Operator, Callable[[_Value, _Value], bool]] = {
    Operator.EQUAL: lambda one, other: one == other,
    Operator.UNEQUAL: lambda one, other: one != other,
    Operator.LESS: lambda one, other: one < other,  # type: ignore[operator]
    Operator.LESS_OR_EQUAL: lambda one, other: one <= other,  # type: ignore[operator]
    Operator.GREATER: lambda one, other: one > other,  # type: ignore[operator]
    Operator.GREATER_OR_EQUAL: lambda one, other: one >= other,  # type: ignore[operator]
}


def _readers(comparison: Comparison) -> tuple[_Reader, _Reader]:
    """Return how both sides are read: as texts, as numbers or as conditions."""
    left, right = comparison.left, comparison.right
    if comparison.operator in (Operator.EQUAL, Operator.UNEQUAL):
        if isinstance(left, (Property, Text)) and isinstance(right, (Property, Text)):
            return _text(left), _text(right)
        if not any(isinstance(node, (Number, Signed)) for node in (left, right)):
            return _truth(left), _truth(right)
    return _number(left), _number(right)


def _number(node: Node) -> _NumberReader:
    match node:
        case Number(value):
            return lambda _: value
        case Property(name):
            return lambda properties: number_of(properties.get(name))
        case Signed(Property(name), is_negative):
            sign = -1 if is_negative else 1

            def signed(properties: Properties) -> int | float | None:
                value = number_of(properties.get(name))
                return None if value is None else sign * value

            return signed
    raise TypeError(f"{node} is no number")


def _text(node: Property | Text) -> _Reader:
    match node:
        case Text(value):
            return lambda _: value
        case Property(name):
            return lambda properties: properties.get(name)
    assert_never(node)


def _truth(node: Node) -> _Reader:
    if isinstance(node, (Number, Signed, Text)):
        raise TypeError(f"{node} is no condition")
    return compiled(node)


def _membership(name: str, texts: frozenset[str], is_negated: bool) -> Test:
    def holds(properties: Properties) -> bool | None:
        found = properties.get(name)
        return None if found is None else (found in texts) is not is_negated

    return holds


_FIND: dict[Place, Callable[[str, str], bool]] = {
    Place.CONTAINS: lambda text, wanted: wanted in text,
    Place.STARTSWITH: str.startswith,
    Place.ENDSWITH: str.endswith,
}


def _search(search: Search) -> Test:
    name, wanted, is_negated = search.property.name, search.text, search.is_negated
    find = _FIND[search.place]
    if not wanted:
        return lambda _: False

    def holds(properties: Properties) -> bool | None:
        found = properties.get(name)
        return found is not None and find(found, wanted) is not is_negated

    return holds
