"""Tokens of a SQL92 filter to its tree. Knows the grammar and what may be compared with what.

From loosely to tightly binding:

    OR
    AND
    =  <>  IS [NOT] NULL
    <  <=  >  >=  [NOT] BETWEEN a AND b  [NOT] IN ('a', ...)
                  [NOT] CONTAINS 'a'  [NOT] STARTSWITH 'a'  [NOT] ENDSWITH 'a'
    NOT  +  -
    property, literal, ( )

So `NOT a = 'x'` is `(NOT a) = 'x'`, as in RocketMQ. Wherever the two readings differ the types do
not fit and the filter is refused, so that nobody gets the messages he did not ask for. There is no
arithmetic and no LIKE, and comparisons do not chain.
"""

from collections.abc import Iterator

from apps.engine.filters.lexer import INTEGER_MAX, Token, TokenKind, refuse, tokens_of
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
    Numeric,
    Operator,
    Or,
    Place,
    Property,
    Search,
    Signed,
    Text,
    Truth,
)
from apps.engine.limits import FILTER_NESTING_MAX, FILTER_TERMS_MAX

_NOTHING, _OR, _AND, _EQUALITY, _RELATION = range(5)
_LEVELS = {
    "OR": _OR,
    "AND": _AND,
    **dict.fromkeys(("=", "<>", "IS"), _EQUALITY),
    **dict.fromkeys(("<", "<=", ">", ">=", "NOT", "BETWEEN", "IN", *Place), _RELATION),
}
_SYMBOLS = (TokenKind.KEYWORD, TokenKind.OPERATOR)


def parse(text: str) -> Condition:
    """Return the condition a filter states.

    Raises InvalidFilter, naming the character, for what is none and for one that is too long, too
    deep or has too many terms.
    """
    return _Parser(tokens_of(text)).whole()


class _Parser:
    """Precedence climbing over one filter's tokens."""

    def __init__(self, tokens: Iterator[Token]) -> None:
        self._tokens = tokens
        self._next = next(self._tokens)
        self._depth = 0
        self._terms = 0

    def whole(self) -> Condition:
        found = self._condition(_NOTHING)
        if self._next.kind is not TokenKind.END:
            refuse(self._next.at, f"expected AND, OR or the end, found {self._next}")
        return found

    def _condition(self, level: int) -> Condition:
        """Parse what binds tighter than `level`, and must be a condition."""
        at = self._next.at
        return _as_condition(self._expression(level), at)

    def _expression(self, level: int) -> Node:
        """Parse what binds tighter than `level`."""
        at = self._next.at
        left = self._operand()
        previous = _NOTHING
        while (found := self._level()) > level:
            if found == previous:
                refuse(self._next.at, "comparisons do not chain; use AND or parentheses")
            previous = found
            if found <= _AND:
                left = self._joined(_as_condition(left, at), found)
            elif found == _EQUALITY:
                left = self._equality(left, at)
            else:
                left = self._relation(left, at)
        return left

    def _level(self) -> int:
        is_symbol = self._next.kind in _SYMBOLS
        return _LEVELS.get(self._next.word, _NOTHING) if is_symbol else _NOTHING

    def _joined(self, first: Condition, level: int) -> Condition:
        """Parse the rest of `first AND ... AND ...`, or of OR."""
        word = "AND" if level == _AND else "OR"
        parts = [first]
        while self._took(word):
            parts.append(self._condition(level))
        return And(tuple(parts)) if level == _AND else Or(tuple(parts))

    def _equality(self, left: Node, at: int) -> Condition:
        operator = self._advance()
        if operator.word == "IS":
            is_negated = self._took("NOT")
            self._expect("NULL")
            return IsNull(_as_property(left, at, "IS NULL"), is_negated)
        right_at = self._next.at
        right = self._expression(_EQUALITY)
        _check_equality(left, right, operator=operator, left_at=at, right_at=right_at)
        return Comparison(Operator(operator.word), left, right)

    def _relation(self, left: Node, at: int) -> Condition:
        is_negated = self._took("NOT")
        operator = self._advance()
        match operator.word if operator.kind is TokenKind.KEYWORD else "":
            case "BETWEEN":
                return self._between(_as_number(left, at), is_negated)
            case "IN":
                return In(_as_property(left, at, "IN"), self._texts(), is_negated)
            case "CONTAINS" | "STARTSWITH" | "ENDSWITH" as word:
                found = _as_property(left, at, word)
                return Search(Place(word), found, self._text(), is_negated)
        if is_negated:
            wanted = "BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH"
            refuse(operator.at, f"expected {wanted} after NOT, found {operator}")
        left = _as_number(left, at)
        right_at = self._next.at
        right = _as_number(self._operand(), right_at)
        return Comparison(Operator(operator.word), left, right)

    def _between(self, value: Numeric, is_negated: bool) -> Condition:
        low_at = self._next.at
        low = _as_number(self._operand(), low_at)
        self._expect("AND")
        high_at = self._next.at
        high = _as_number(self._operand(), high_at)
        if isinstance(low, Number) and isinstance(high, Number) and low.value > high.value:
            refuse(low_at, "the lower bound of BETWEEN is above the upper one")
        return Between(value, low, high, is_negated)

    def _texts(self) -> tuple[str, ...]:
        self._expect("(")
        texts = [self._text()]
        while self._took(","):
            texts.append(self._text())
        self._expect(")")
        return tuple(texts)

    def _text(self) -> str:
        token = self._advance()
        if token.kind is not TokenKind.TEXT:
            refuse(token.at, f"expected a text in quotes, found {token}")
        self._count_term(token)
        return token.word

    def _operand(self) -> Node:
        token = self._advance()
        if token.kind in _SYMBOLS:
            return self._prefixed(token)
        self._count_term(token)
        match token.kind:
            case TokenKind.NAME:
                return Property(token.word)
            case TokenKind.TEXT:
                return Text(token.word)
            case TokenKind.NUMBER:
                return _number(token)
        return refuse(token.at, f"expected a property, a value or a condition, found {token}")

    def _prefixed(self, token: Token) -> Node:
        at = self._next.at
        match token.word:
            case "(":
                self._go_deeper(token)
                inner = self._expression(_NOTHING)
                self._expect(")")
            case "NOT":
                self._go_deeper(token)
                inner = Not(_as_condition(self._operand(), at))
            case "+" | "-":
                return self._signed(token)
            case "TRUE" | "FALSE" | "NULL" as word:
                self._count_term(token)
                return Truth({"TRUE": True, "FALSE": False, "NULL": None}[word])
            case _:
                refuse(token.at, f"expected a property, a value or a condition, found {token}")
        self._depth -= 1
        return inner

    def _signed(self, sign: Token) -> Node:
        is_negative = sign.word == "-"
        if self._next.kind is TokenKind.NUMBER:
            token = self._advance()
            self._count_term(token)
            return _number(token, is_negative=is_negative)
        at = self._next.at
        self._go_deeper(sign)
        operand = _as_number(self._operand(), at)
        self._depth -= 1
        match operand:
            case Property():
                return Signed(operand, is_negative)
            case Signed():
                return Signed(operand.property, operand.is_negative != is_negative)
        if is_negative and operand.value == -INTEGER_MAX - 1:
            # The smallest integer has no opposite.
            refuse(sign.at, "the number does not fit in 64 bits")
        return Number(-operand.value if is_negative else operand.value)

    def _go_deeper(self, token: Token) -> None:
        self._depth += 1
        if self._depth > FILTER_NESTING_MAX:
            refuse(token.at, f"nested deeper than {FILTER_NESTING_MAX} levels")

    def _count_term(self, token: Token) -> None:
        self._terms += 1
        if self._terms > FILTER_TERMS_MAX:
            refuse(token.at, f"more than {FILTER_TERMS_MAX} terms")

    def _advance(self) -> Token:
        token = self._next
        if token.kind is not TokenKind.END:
            self._next = next(self._tokens)
        return token

    def _took(self, symbol: str) -> bool:
        is_there = self._next.kind in _SYMBOLS and self._next.word == symbol
        if is_there:
            self._advance()
        return is_there

    def _expect(self, symbol: str) -> None:
        if not self._took(symbol):
            refuse(self._next.at, f"expected {symbol}, found {self._next}")


def _number(token: Token, *, is_negative: bool = False) -> Number:
    if isinstance(token.number, int) and token.number > INTEGER_MAX and not is_negative:
        refuse(token.at, "the number does not fit in 64 bits")
    return Number(-token.number if is_negative else token.number)


def _as_condition(node: Node, at: int) -> Condition:
    if isinstance(node, (Text, Number, Signed)):
        refuse(at, "expected a condition, found a value")
    return node


def _as_property(node: Node, at: int, operator: str) -> Property:
    if not isinstance(node, Property):
        refuse(at, f"{operator} asks about a property")
    return node


def _as_number(node: Node, at: int) -> Numeric:
    if isinstance(node, Text):
        refuse(at, "texts have no order; only numbers and properties do")
    if not isinstance(node, (Property, Signed, Number)):
        refuse(at, "expected a number or a property, found a condition")
    return node


def _check_equality(
    left: Node, right: Node, *, operator: Token, left_at: int, right_at: int
) -> None:
    for node, at in ((left, left_at), (right, right_at)):
        if node == Truth(None):
            refuse(at, "NULL equals nothing; use IS NULL or IS NOT NULL")
    kinds = {_kind(left), _kind(right)}
    if len(kinds) == 1 or kinds in ({"property", "text"}, {"property", "number"}):
        return
    if kinds == {"property", "condition"} and any(isinstance(n, Truth) for n in (left, right)):
        return
    first, second = sorted(kinds)
    refuse(operator.at, f"a {first} cannot be compared with a {second}")


def _kind(node: Node) -> str:
    match node:
        case Property():
            return "property"
        case Text():
            return "text"
        case Number() | Signed():
            return "number"
    return "condition"
