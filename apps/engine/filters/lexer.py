"""The text of a SQL92 filter as tokens. Knows characters; what tokens mean is the parser's.

name      letter, _ or $, then these and digits; ASCII, case matters
keyword   a name of the list below, in any case
number    15 (64 bits, signed), 1.5  .5  2.  1e9 (double precision)
text      'it''s': everything up to the closing quote, a quote is written twice
operator  =  <>  <  <=  >  >=  +  -  (  )  ,
ignored   blanks, `--` to the end of the line, `/* */`
"""

import math
import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple, NoReturn

from apps.engine.errors import InvalidFilter
from apps.engine.limits import FILTER_CHARACTERS_MAX

KEYWORDS = frozenset(
    """
    AND OR NOT IS NULL TRUE FALSE BETWEEN IN CONTAINS STARTSWITH ENDSWITH
    """.split()
)
INTEGER_MAX = (1 << 63) - 1

FLOAT_PATTERN = r"(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+"
# What a repetition takes and what ends it are never the same, so that no text makes them slow.
# Possessive ones would say so, but Python before 3.11.5 matches those of groups wrongly.
_TOKEN = re.compile(
    rf"""
      (?P<blank>   [ \t\r\n\f]+ | --[^\r\n]* | /\*(?:[^*]|\*(?!/))*\*/ )
    | (?P<float>   {FLOAT_PATTERN} )
    | (?P<integer> [0-9]+ )
    | (?P<text>    '(?:[^']|'')*'(?!') )
    | (?P<name>    [A-Za-z_$][A-Za-z0-9_$]* )
    | (?P<operator> <> | <= | >= | [=<>+\-(),] )
    """,
    re.VERBOSE,
)


class TokenKind(Enum):
    """What a token is."""

    NAME = auto()
    KEYWORD = auto()
    TEXT = auto()
    NUMBER = auto()
    OPERATOR = auto()
    END = auto()


class Token(NamedTuple):
    """A token and the index of its first character.

    `word` is a name or operator as written, a keyword in capitals, or a text without its quotes.
    An integer may be one too large by itself: the sign before it decides.
    """

    kind: TokenKind
    at: int
    word: str = ""
    number: int | float = 0

    def __str__(self) -> str:
        """Name the token for an error. What a text says is not repeated: it may be anything."""
        is_plain = self.kind in (TokenKind.NAME, TokenKind.KEYWORD, TokenKind.OPERATOR)
        return self.word if is_plain else _CALLED[self.kind]


_CALLED = {
    TokenKind.TEXT: "a text",
    TokenKind.NUMBER: "a number",
    TokenKind.END: "the end",
}


def refuse(at: int, what: str) -> NoReturn:
    """Raise InvalidFilter for something wrong at the character with index `at`."""
    raise InvalidFilter(f"at character {at + 1}: {what}")


def tokens_of(text: str) -> Iterator[Token]:
    """Yield the tokens of a filter, the last of kind END.

    Raises InvalidFilter for what is no token, and for a text longer than 4,096 characters.
    """
    if len(text) > FILTER_CHARACTERS_MAX:
        refuse(FILTER_CHARACTERS_MAX, f"a filter has at most {FILTER_CHARACTERS_MAX} characters")
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            refuse(at, _fault(text, at))
        if match.lastgroup != "blank":
            yield _token(match.lastgroup or "", match[0], at)
        at = match.end()
    yield Token(TokenKind.END, at)


def _token(group: str, text: str, at: int) -> Token:
    match group:
        case "name":
            keyword = text.upper()
            if keyword in KEYWORDS:
                return Token(TokenKind.KEYWORD, at, keyword)
            return Token(TokenKind.NAME, at, text)
        case "text":
            return Token(TokenKind.TEXT, at, text[1:-1].replace("''", "'"))
        case "integer":
            # Python reads up to 4,300 digits; a filter is shorter.
            whole = int(text)
            if whole > INTEGER_MAX + 1:
                refuse(at, "the number does not fit in 64 bits")
            return Token(TokenKind.NUMBER, at, number=whole)
        case "float":
            value = float(text)
            if math.isinf(value):
                refuse(at, "the number is too large")
            return Token(TokenKind.NUMBER, at, number=value)
    return Token(TokenKind.OPERATOR, at, text)


def _fault(text: str, at: int) -> str:
    if text[at] == "'":
        return "the text has no closing quote"
    if text.startswith("/*", at):
        return "the comment has no end"
    character = text[at]
    # Told by number where it could not be seen, or would turn the message around.
    is_plain = character.isascii() and character.isprintable()
    return f"{character if is_plain else f'U+{ord(character):04X}'} belongs to nothing"
