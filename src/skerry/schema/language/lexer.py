"""Text of the type language to tokens.

Comments are not tokens: they are attached to the token that follows, where the parser finds the
documentation and the formatter finds all of them. Invalid text does not raise an error. It becomes
a problem, and the scan continues after it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from skerry import limits
from skerry.errors import SchemaSyntaxError
from skerry.schema.language.problems import ProblemList
from skerry.schema.language.syntax import Comment, Word

NUMBER_DIGITS_MAX: Final = 20
"""Digits of a number in a type file. No tag or value has more than ten, and Python refuses to
convert several thousand."""

TokenKind: TypeAlias = Literal["name", "number", "string", "mark", "end"]


class Token(NamedTuple):
    """A name, number, string or mark. Lines and columns count from 1, columns in characters."""

    kind: TokenKind
    text: str
    line: int
    column: int
    comments: tuple[Comment, ...]
    """The comments between the previous token and this one."""
    is_first: bool
    """Whether it is the first on its line, where a new item is likely to begin."""
    blank_before: bool
    """Whether an empty line precedes it, or its last comment."""


def decode(data: bytes, file: str = "<text>") -> str:
    """The text of a type file. Raises SchemaSyntaxError with the position if it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        before = before.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
        bad = data[error.start : error.end].hex(" ")
        at = Word(
            text=bad, line=before.count("\n") + 1, column=len(before) - (before.rfind("\n") + 1) + 1
        )
        problems = ProblemList().of(file)
        problems.error(at, f"not UTF-8: {error.reason} (byte {bad})", hint=_UTF8_HINT)
        raise SchemaSyntaxError(problems.errors) from None


def scan(text: str, problems: ProblemList) -> list[Token]:
    """The tokens of `text`; the last one is always the end."""
    text = text.removeprefix("\ufeff")
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > limits.SOURCE_BYTES_MAX:
        at = Word(text="", line=1, column=1)
        problems.error(at, f"the text has {size} bytes, the limit is {limits.SOURCE_BYTES_MAX}")
        text = ""
    return list(_Scan(text.replace("\r\n", "\n").replace("\r", "\n"), problems).tokens())


def unquote(raw: str) -> str:
    """The value of a string token. Raises ValueError if it is invalid."""
    body = raw[1:-1]
    value = _unescape(body, raw[0]) if "\\" in body else body
    if _SURROGATE.search(value):
        raise ValueError("half of a surrogate pair is not a character")
    return value


def _unescape(body: str, quote: str) -> str:
    if quote == "'":
        body = _IN_SINGLE_QUOTES.sub(_to_double_quotes, body)
    try:
        value = json.loads(f'"{body}"', strict=False)
    except json.JSONDecodeError as error:
        # The position counts from the quote, and is that of the backslash or after it.
        start = body.rfind("\\", 0, error.pos)
        raise ValueError(f"`{body[start : start + 2]}` is not an escape") from None
    assert isinstance(value, str)
    return value


# -- the scan

_UTF8_HINT: Final = "save the file as UTF-8"

_PIECE: Final = re.compile(
    r"""
      (?P<space>[ \t\f\v]+)
    | (?P<break>\n[ \t\f\v\n]*)
    | (?P<comment>//[^\n]*)
    | (?P<block>/\*.*?\*/)
    | (?P<name>[^\W\d]\w*)
    | (?P<mark>[{}\[\]<>:;,=.\-])
    | (?P<number>[0-9]\w*)
    | (?P<string>"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*')
    | (?P<open_block>/\*.*)
    | (?P<open_string>["'][^\n]*)
    | (?P<bad>(?:(?!//|/\*)[^\s\w{}\[\]<>:;,=.\-"'])+|.)
    """,
    re.VERBOSE | re.DOTALL,
)

_IN_SINGLE_QUOTES: Final = re.compile(r'\\.|"')

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def _to_double_quotes(match: re.Match[str]) -> str:
    piece = match[0]
    if piece == "\\'":
        return "'"
    return '\\"' if piece == '"' else piece


@dataclass(slots=True)
class _Scan:
    text: str
    problems: ProblemList

    def tokens(self) -> Iterator[Token]:
        line, line_start = 1, 0
        comments: list[Comment] = []
        is_first = True
        blank = False
        for match in _PIECE.finditer(self.text):
            kind = match.lastgroup
            if kind == "space":
                continue
            piece = match[0]
            if kind == "break":
                count = piece.count("\n")
                line += count
                line_start = match.end() - (len(piece) - piece.rfind("\n") - 1)
                is_first = True
                blank = count > 1
                continue
            column = match.start() - line_start + 1
            if kind in _TOKEN_KINDS:
                if kind != "mark":
                    self._check(kind, piece, line, column)
                yield Token(
                    _TOKEN_KINDS[kind], piece, line, column, tuple(comments), is_first, blank
                )
                comments.clear()
                is_first = blank = False
                continue
            if kind in {"comment", "block", "open_block"}:
                last_line = line + piece.count("\n")
                comments.append(
                    Comment(
                        text=piece,
                        line=line,
                        column=column,
                        last_line=last_line,
                        blank_before=blank,
                    )
                )
                if last_line > line:
                    line = last_line
                    line_start = match.start() + piece.rfind("\n") + 1
                blank = False
            self._check(kind, piece, line, column)
            if self.problems.is_full:
                break
        column = len(self.text) - line_start + 1
        yield Token("end", "", line, max(column, 1), tuple(comments), True, blank)

    def _check(self, kind: str | None, piece: str, line: int, column: int) -> None:
        fault = _fault(kind or "bad", piece)
        if fault is None:
            return
        message, hint = fault
        text = piece.split("\n", 1)[0]
        at = Word(text=text, line=line - piece.count("\n"), column=column)
        self.problems.error(at, message, hint=hint)


_TOKEN_KINDS: Final[dict[str | None, TokenKind]] = {
    "name": "name",
    "number": "number",
    "string": "string",
    "open_string": "string",
    "mark": "mark",
}

_Fault: TypeAlias = tuple[str, str | None]


def _fault(kind: str, piece: str) -> _Fault | None:
    """Why a piece of text of that kind is invalid, with a hint."""
    match kind:
        case "name" if not piece.isascii():
            return (
                f"`{piece}` is not a name: use only the letters A-Z and a-z, digits and `_`",
                None,
            )
        case "number" if not (piece.isascii() and piece.isdigit()):
            why = "a number has only digits, and a name does not begin with one"
            return f"`{piece}` is not a number: {why}", None
        case "number" if len(piece) > NUMBER_DIGITS_MAX:
            return f"a number of {len(piece)} digits is too long", None
        case "string":
            try:
                unquote(piece)
            except ValueError as error:
                return f"bad text {piece}: {error}", "write a backslash as `\\\\`"
        case "open_string":
            return f"the text is not closed: {piece[0]} is missing on this line", None
        case "comment" | "block" if _SURROGATE.search(piece):
            return "half of a surrogate pair is not a character", _UTF8_HINT
        case "open_block":
            return "the comment is not closed: `*/` is missing", None
        case "bad" if piece.isprintable():
            return f"`{piece}` has no meaning here", None
        case "bad":
            names = " ".join(f"U+{ord(char):04X}" for char in piece[:4])
            return f"{names} has no meaning here", "remove the invisible character"
    return None
