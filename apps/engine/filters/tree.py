"""What a SQL92 filter says, as frozen values. Knows no text and no messages.

A value is a property (always text, perhaps missing), a text or a number. Everything else is a
condition: true, false or unknown. A property can stand for a condition: its text then says `true`
or `false`.
"""

from dataclasses import dataclass
from enum import StrEnum


class Operator(StrEnum):
    """How two values are compared."""

    EQUAL = "="
    UNEQUAL = "<>"
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="


class Place(StrEnum):
    """Where a text is looked for in a property."""

    CONTAINS = "CONTAINS"
    STARTSWITH = "STARTSWITH"
    ENDSWITH = "ENDSWITH"


@dataclass(frozen=True, slots=True)
class Property:
    """What a message has under this name, or NULL."""

    name: str


@dataclass(frozen=True, slots=True)
class Signed:
    """The number in a property, negated or as it is."""

    property: Property
    is_negative: bool


@dataclass(frozen=True, slots=True)
class Number:
    """A signed integer of 64 bits, or a finite number of double precision."""

    value: int | float


@dataclass(frozen=True, slots=True)
class Text:
    """A text between quotes."""

    value: str


@dataclass(frozen=True, slots=True)
class Truth:
    """TRUE, FALSE, or NULL for unknown."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite; of unknown, unknown."""

    operand: "Condition"


@dataclass(frozen=True, slots=True)
class And:
    """False if one part is, else unknown if one part is. Two parts or more."""

    parts: tuple["Condition", ...]


@dataclass(frozen=True, slots=True)
class Or:
    """True if one part is, else unknown if one part is. Two parts or more."""

    parts: tuple["Condition", ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two values compared. Unknown where one is NULL, or is no number where one is wanted."""

    operator: Operator
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class Between:
    """`low` <= `value` <= `high`, or the opposite."""

    value: "Numeric"
    low: "Numeric"
    high: "Numeric"
    is_negated: bool


@dataclass(frozen=True, slots=True)
class In:
    """The property is one of the texts, or none of them."""

    property: Property
    texts: tuple[str, ...]
    is_negated: bool


@dataclass(frozen=True, slots=True)
class IsNull:
    """The message has no such property, or has it. Never unknown."""

    property: Property
    is_negated: bool


@dataclass(frozen=True, slots=True)
class Search:
    """The property has the text there, or has it not.

    Never unknown: a missing property and an empty text make it false, the opposite as well.
    """

    place: Place
    property: Property
    text: str
    is_negated: bool


Numeric = Property | Signed | Number
Condition = Property | Truth | Not | And | Or | Comparison | Between | In | IsNull | Search
Node = Signed | Number | Text | Condition
