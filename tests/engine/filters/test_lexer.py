"""Characters to tokens, and what is no token."""

import pytest

from apps.engine.errors import InvalidFilter
from apps.engine.filters.lexer import INTEGER_MAX, KEYWORDS, Token, TokenKind, tokens_of
from apps.engine.limits import FILTER_CHARACTERS_MAX


def lexed(text: str) -> list[Token]:
    return list(tokens_of(text))


def words(text: str) -> list[str]:
    return [token.word for token in lexed(text)[:-1]]


def test_a_filter_of_nothing_is_only_its_end() -> None:
    assert lexed(" \t\r\n\f") == [Token(TokenKind.END, 5)]


@pytest.mark.parametrize("name", ["a", "_", "$", "aB9_$", "__SHARDINGKEY", "NOTE", "nulls"])
def test_a_name_begins_with_a_letter_an_underscore_or_a_dollar(name: str) -> None:
    assert lexed(name)[0] == Token(TokenKind.NAME, 0, name)


@pytest.mark.parametrize("keyword", sorted(KEYWORDS))
def test_a_keyword_is_one_in_any_case(keyword: str) -> None:
    mixed = "".join(c.lower() if i % 2 else c for i, c in enumerate(keyword))

    assert [lexed(text)[0] for text in (keyword, keyword.lower(), mixed)] == [
        Token(TokenKind.KEYWORD, 0, keyword)
    ] * 3


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("007", 7),
        (str(INTEGER_MAX), INTEGER_MAX),
        (f"000{INTEGER_MAX + 1}", INTEGER_MAX + 1),
        ("1.5", 1.5),
        (".5", 0.5),
        ("2.", 2.0),
        ("1e3", 1000.0),
        ("1.5E-1", 0.15),
        (".5e+2", 50.0),
        ("1e-999", 0.0),
    ],
)
def test_a_number_is_whole_or_decimal_or_has_an_exponent(text: str, number: float) -> None:
    (token, _end) = lexed(text)

    assert (token.kind, token.number, type(token.number)) == (
        TokenKind.NUMBER,
        number,
        type(number),
    )


@pytest.mark.parametrize(
    "text", [str(INTEGER_MAX + 2), "9" * 20, "1" * 4000, "1e309", "1e99999", "9" * 400 + ".0"]
)
def test_a_number_that_no_machine_number_holds_is_refused(text: str) -> None:
    with pytest.raises(InvalidFilter, match="at character 3: the number"):
        lexed(f"  {text}")


def test_a_quote_in_a_text_is_written_twice() -> None:
    assert words("'it''s' '' ''''") == ["it's", "", "'"]


def test_a_text_may_hold_any_character() -> None:
    text = "中\u202e\x00\x01\n--/*\ud800🙂"

    assert words(f"'{text}'") == [text]


def test_comments_and_blanks_lie_between_tokens() -> None:
    assert words("a--b = 'x'\n<>/* c\n ** / */d -- to the end") == ["a", "<>", "d"]


def test_a_comment_to_the_end_of_the_line_ends_with_any_line_end() -> None:
    assert words("-- a\rb -- c\r\nd") == ["b", "d"]


def test_operators_take_the_longest_that_fits() -> None:
    assert words("<><=>=<>=(),+-") == ["<>", "<=", ">=", "<>", "=", "(", ")", ",", "+", "-"]


def test_each_token_knows_where_it_begins() -> None:
    assert [token.at for token in lexed(" a <= 'b' /*c*/ 1")] == [1, 3, 6, 16, 17]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a = 'x", "at character 5: the text has no closing quote"),
        ("a = 'x''", "at character 5: the text has no closing quote"),
        ("a /* * /", "at character 3: the comment has no end"),
        ("/*/", "at character 1: the comment has no end"),
        ("a != b", "at character 3: ! belongs to nothing"),
        ('a = "x"', 'at character 5: " belongs to nothing'),
        ("a.b", "at character 2: . belongs to nothing"),
        ("a\x00", "at character 2: U\\+0000 belongs to nothing"),
        ("中 = 'x'", "at character 1: U\\+4E2D belongs to nothing"),
        ("a\u202eb", "at character 2: U\\+202E belongs to nothing"),
        ("a\u00a0b", "at character 2: U\\+00A0 belongs to nothing"),
        ("a = \ud800", "at character 5: U\\+D800 belongs to nothing"),
        ("a = \u0661", "at character 5: U\\+0661 belongs to nothing"),
        ("a = 🙂", "at character 5: U\\+1F642 belongs to nothing"),
    ],
)
def test_what_is_no_token_is_named_by_its_place(text: str, error: str) -> None:
    with pytest.raises(InvalidFilter, match=f"^{error}$"):
        lexed(text)


def test_the_length_is_bounded() -> None:
    longest = "a" * FILTER_CHARACTERS_MAX

    assert words(longest) == [longest]
    with pytest.raises(InvalidFilter, match="at character 4097: a filter has at most 4096"):
        lexed(longest + " ")


def test_an_error_never_repeats_what_a_text_says() -> None:
    secret = lexed("'\u202esecret'")[0]

    assert str(secret) == "a text"
