"""Walking over tokens: looking ahead, expecting, giving up, and sorting comments to their items."""

from __future__ import annotations

from typing import Final

from skerry.schema.lexer import Token
from skerry.schema.problems import ProblemList, Spot
from skerry.schema.syntax import Comment, Notes, Word

__all__ = ["KEYWORDS", "Cursor", "GivenUpError", "word"]

KEYWORDS: Final = ("struct", "enum", "import", "package")


class GivenUpError(Exception):
    """The item cannot be read further; the fault is reported already."""


class Cursor:
    """A place in the tokens of one file."""

    def __init__(self, tokens: list[Token], file: str, problems: ProblemList) -> None:
        assert tokens[-1].kind == "end"
        self._tokens = tokens
        self._index = 0
        self._file = file
        self._problems = problems
        self._scan_faults = [(problem.line, problem.column) for problem in problems.errors]
        self._pending = list(tokens[0].comments)
        self._inside: list[Comment] = []
        self.token = tokens[0]
        """The next token."""
        self.last = tokens[0]
        """The token taken last."""

    def ahead(self, count: int) -> Token:
        """The token `count` behind the next one; past the end it is the end."""
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
        """The next token, which the cursor passes; comments before it are inside the item."""
        token = self.token
        self._inside += self._pending
        self.last = token
        if token.kind != "end":
            self._index += 1
            self.token = self._tokens[self._index]
        self._pending = list(self.token.comments)
        return token

    def take_if(self, mark: str) -> bool:
        """Pass the mark if it is next."""
        if not self.is_at(mark):
            return False
        self.take()
        return True

    def expect(self, mark: str, where: str, *, hint: str | None = None) -> Token:
        """Pass the mark, or report that it is missing and give up."""
        if not self.is_at(mark):
            raise self.fail(f"expected `{mark}` {where}, found {self.found}", hint=hint)
        return self.take()

    def expect_name(self, what: str, *, hint: str | None = None) -> Word:
        """Pass a name, or report what it should have been and give up."""
        if self.token.kind != "name":
            raise self.fail(f"expected {what}, found {self.found}", hint=hint)
        return word(self.take())

    def expect_number(self, what: str, *, hint: str | None = None) -> Word:
        """Pass a number, which may have a minus, or report what it should have been."""
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
        """The next token, for a message."""
        return "the end of the file" if self.is_at_end else f"`{self.token.text}`"

    def fail(self, message: str, *, hint: str | None = None) -> GivenUpError:
        """Report a fault of the next token; the caller raises what is returned."""
        if not self._is_behind_scan_fault:
            self.report(message, self.token, hint=hint)
        return GivenUpError()

    @property
    def _is_behind_scan_fault(self) -> bool:
        """Whether what is missed here was probably meant by something that is no token."""
        first = (self.last.line, self.last.column)
        last = (self.token.line, self.token.column)
        return any(first <= place <= last for place in self._scan_faults)

    def has_scan_fault(self, first: Token) -> bool:
        """Whether something between the token `first` and the one taken last is no token."""
        start, end = (first.line, first.column), (self.last.line, self.last.column)
        return any(start <= place <= end for place in self._scan_faults)

    def report(self, message: str, at: Spot, *, hint: str | None = None) -> None:
        self._problems.error(self._file, at, message, hint=hint)

    @property
    def behind_last(self) -> Word:
        """Right behind the token taken last: where a missing mark should stand."""
        last = self.last
        return Word(text=last.text, line=last.line, column=last.column + len(last.text))

    def skip_options(self) -> bool:
        """Pass the rest of broken options; whether what follows them can still be read."""
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
        """Pass the rest of a broken definition, braces and all."""
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
        """The comments met since the item began."""
        inside = tuple(self._inside)
        self._inside = []
        return inside

    def take_after(self, *, plain_only: bool = False) -> tuple[Comment, ...]:
        """The comments that follow on the line of the token taken last."""
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
    """The token as a piece of the tree."""
    return Word(text=token.text, line=token.line, column=token.column)
