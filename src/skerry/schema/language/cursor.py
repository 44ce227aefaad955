"""A position in the tokens: looking ahead, expecting, skipping, and assigning comments to items."""

from __future__ import annotations

from typing import Final

from skerry.schema.language.lexer import Token
from skerry.schema.language.problems import ProblemList, Spot
from skerry.schema.language.syntax import Comment, Notes, Word

KEYWORDS: Final = ("struct", "enum", "import", "package")


class GivenUpError(Exception):
    """An item cannot be parsed; the fault is reported already."""


class Cursor:
    """A position in the tokens of one file."""

    def __init__(self, tokens: list[Token], problems: ProblemList) -> None:
        assert tokens[-1].kind == "end"
        self._tokens = tokens
        self._index = 0
        self._problems = problems
        self._scan_faults = [(problem.line, problem.column) for problem in problems.errors]
        self._pending = list(tokens[0].comments)
        self._inside: list[Comment] = []
        self.token = tokens[0]
        self.last = tokens[0]

    def ahead(self, count: int) -> Token:
        """The token `count` after the next one; past the end it is the end token."""
        return self._tokens[min(self._index + count, len(self._tokens) - 1)]

    def is_at(self, *marks: str) -> bool:
        """Whether the next token is one of these marks."""
        return self.token.kind == "mark" and self.token.text in marks

    @property
    def is_at_end(self) -> bool:
        return self.token.kind == "end"

    @property
    def is_at_number(self) -> bool:
        """Whether the next token can begin a field or an element."""
        return self.token.kind == "number" or (self.is_at("-") and self.ahead(1).kind == "number")

    @property
    def is_at_keyword(self) -> bool:
        """Whether a definition, import or package is likely to begin here."""
        token = self.token
        return token.kind == "name" and token.is_first and token.text in KEYWORDS

    # -- taking

    def take(self) -> Token:
        """Pass and return the next token; comments before it are inside the item."""
        token = self.token
        self._inside += self._pending
        self.last = token
        if token.kind != "end":
            self._index += 1
            self.token = self._tokens[self._index]
        self._pending = list(self.token.comments)
        return token

    def take_if(self, mark: str) -> bool:
        if not self.is_at(mark):
            return False
        self.take()
        return True

    def expect(self, mark: str, where: str, *, hint: str | None = None) -> Token:
        """Pass the mark. Otherwise report that it is missing and raise GivenUpError."""
        if not self.is_at(mark):
            raise self.fail(f"expected `{mark}` {where}, found {self.found}", hint=hint)
        return self.take()

    def expect_name(self, what: str, *, hint: str | None = None) -> Word:
        """Pass a name. Otherwise report what is expected and raise GivenUpError."""
        if self.token.kind != "name":
            raise self.fail(f"expected {what}, found {self.found}", hint=hint)
        return word(self.take())

    def expect_number(self, what: str, *, hint: str | None = None) -> Word:
        """Pass a number, which may have a minus. Otherwise report and raise GivenUpError."""
        if not self.is_at_number:
            raise self.fail(f"expected {what}, found {self.found}", hint=hint)
        first = self.take()
        if first.kind == "number":
            return word(first)
        digits = self.take()
        return Word(text=f"-{digits.text}", line=first.line, column=first.column)

    # -- faults

    @property
    def found(self) -> str:
        return "the end of the file" if self.is_at_end else f"`{self.token.text}`"

    def fail(self, message: str, *, hint: str | None = None) -> GivenUpError:
        """Report a fault of the next token. Returns the error for the caller to raise."""
        if not self._is_behind_scan_fault:
            self.report(message, self.token, hint=hint)
        return GivenUpError()

    @property
    def _is_behind_scan_fault(self) -> bool:
        """Whether a fault of the lexer is here, which is probably the cause of what is missing."""
        first = (self.last.line, self.last.column)
        last = (self.token.line, self.token.column)
        return any(first <= position <= last for position in self._scan_faults)

    def has_scan_fault(self, first: Token) -> bool:
        """Whether a fault of the lexer is between the token `first` and the last passed one."""
        start, end = (first.line, first.column), (self.last.line, self.last.column)
        return any(start <= position <= end for position in self._scan_faults)

    def report(self, message: str, at: Spot, *, hint: str | None = None) -> None:
        self._problems.error(at, message, hint=hint)

    @property
    def behind_last(self) -> Word:
        """The position right after the last passed token: that of a missing mark."""
        last = self.last
        return Word(text=last.text, line=last.line, column=last.column + len(last.text))

    def skip_options(self) -> bool:
        """Pass the rest of broken options. Returns whether parsing can continue after them."""
        while not (self.is_at_end or self.token.is_first or self.is_at("{", "}", ";")):
            if self.take().text == "]":
                return True
        return self.is_at("{")

    def skip_item(self, ends: str) -> None:
        """Pass the rest of a broken field or element, to where the next one is likely to begin."""
        while not (self.is_at_end or self.is_at("}") or self.is_at_keyword):
            if self.is_at_number and self.token.is_first:
                return
            if self.take().text in ends:
                return

    def skip_definition(self) -> None:
        """Pass the rest of a broken definition with its braces."""
        depth = 0
        while not self.is_at_end:
            if self.is_at_keyword and (depth == 0 or self.token.column == 1):
                return
            text = self.take().text
            depth += (text == "{") - (text == "}")
            if depth <= 0 and text == "}":
                return

    # -- comments

    def begin(self) -> Notes:
        """Start an item at the next token."""
        notes = Notes(before=tuple(self._pending), blank_before=self.token.blank_before)
        self._pending = []
        self._inside = []
        return notes

    def take_inside(self) -> tuple[Comment, ...]:
        """The comments passed since the item began."""
        inside = tuple(self._inside)
        self._inside = []
        return inside

    def take_after(self, *, plain_only: bool = False) -> tuple[Comment, ...]:
        """The comments that follow on the line of the last passed token."""
        count = 0
        for comment in self._pending:
            if comment.line != self.last.line or (plain_only and comment.is_documentation):
                break
            count += 1
        after = tuple(self._pending[:count])
        del self._pending[:count]
        return after

    def take_pending(self) -> tuple[Comment, ...]:
        """All comments before the next token."""
        pending = tuple(self._pending)
        self._pending = []
        return pending


def word(token: Token) -> Word:
    """The token as a word of the syntax tree."""
    return Word(text=token.text, line=token.line, column=token.column)
