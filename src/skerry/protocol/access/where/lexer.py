"""The tokens of a `where`, and errors about its text."""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple, TypeAlias

from skerry.errors import FilterError, Problem
from skerry.limits import EXCERPT_CHAR_COUNT_MAX

WHERE_CHAR_COUNT_MAX: Final = 262_144
"""Characters of one `where`. The longest permitted list fits, written as numbers."""

TokenKind: TypeAlias = Literal["word", "number", "text", "mark", "end"]


class WhereToken(NamedTuple):
    """One token of the text, and its position in characters."""

    kind: TokenKind
    text: str
    at: int

    @property
    def word(self) -> str:
        """The word or mark in lower case, because the case of keywords is ignored."""
        return self.text.lower() if self.kind in ("word", "mark") else ""

    @property
    def content(self) -> str:
        """The content of a text in quotes."""
        quote = self.text[0]
        return self.text[1:-1].replace(quote * 2, quote)

    @property
    def shown(self) -> str:
        if self.kind == "end":
            return "the end"
        return f"`{self.text[:_SHOWN_MAX]}{'...' if len(self.text) > _SHOWN_MAX else ''}`"


def scan(source: str) -> list[WhereToken]:
    """Return the tokens of the text; the last one is always the end."""
    if len(source) > WHERE_CHAR_COUNT_MAX:
        start = WhereToken("end", "", 0)
        detail = f"it has {len(source)} characters, the limit is {WHERE_CHAR_COUNT_MAX}"
        raise fault(source, start, detail)
    tokens: list[WhereToken] = []
    for match in _PIECE.finditer(source):
        kind = match.lastgroup
        if kind == "space":
            continue
        assert kind is not None
        found = _KINDS.get(kind)
        if found is None:
            raise _bad_piece(source, kind, WhereToken("mark", match[0], match.start()))
        tokens.append(WhereToken(found, match[0], match.start()))
    tokens.append(WhereToken("end", "", len(source)))
    return tokens


def fault(source: str, token: WhereToken, message: str, hint: str | None = None) -> FilterError:
    """Return the error about the text at a token."""
    before = source[: token.at]
    problem = Problem(
        message=message,
        file="where",
        line=before.count("\n") + 1,
        column=token.at - (before.rfind("\n") + 1) + 1,
        text=token.text[:EXCERPT_CHAR_COUNT_MAX],
        hint=hint,
    )
    return FilterError([problem])


_SHOWN_MAX: Final = 60

_KINDS: Final[dict[str, TokenKind]] = {
    "word": "word",
    "number": "number",
    "text": "text",
    "mark": "mark",
}

_PIECE: Final = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<text>'(?:[^']++|'')*+' | "(?:[^"]++|"")*+")
    | (?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))
    | (?P<bad_number>[+-]?\.?[0-9][\w.]*)
    | (?P<word>[^\W\d]\w*)
    | (?P<mark><=|>=|<>|!=|==|[=<>(),.])
    | (?P<open>['"].*)
    | (?P<bad>[^\w\s'"=<>(),.]+|.)
    """,
    re.VERBOSE | re.DOTALL,
)

_FOREIGN: Final = {
    "&&": "write `and`",
    "&": "write `and`",
    "||": "write `or`",
    "|": "write `or`",
    "!": "write `not`",
    "%": "`%` is used in the quoted pattern of a `like`",
}


def _bad_piece(source: str, kind: str, token: WhereToken) -> FilterError:
    if kind == "open":
        hint = "a quote inside a text is written twice"
        return fault(source, token, f"the text is not closed: {token.text[0]} is missing", hint)
    if kind == "bad_number":
        hint = "put texts and times in quotes"
        return fault(source, token, f"{token.shown} is not a number", hint)
    if token.text in ("-", "+", "*", "/"):
        return fault(source, token, "arithmetic is not supported in a `where`")
    hint = _FOREIGN.get(token.text, "put texts in quotes")
    shown = token.shown if token.text.isprintable() else f"U+{ord(token.text[0]):04X}"
    return fault(source, token, f"{shown} has no meaning here", hint)
