"""The syntax tree of a `where`, without regard to types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from skerry.errors import FilterError
from skerry.limits import FILTER_DEPTH_MAX
from skerry.protocol.access.where.lexer import WhereToken, fault, scan

Operator: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">=", "in", "between", "like", "null"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A field, an operator, and the values that the field is compared with."""

    field: WhereToken
    operator: Operator
    values: tuple[WhereToken, ...]
    is_negated: bool = False
    """Whether it has its own `not`: `not in`, `not between`, `not like`, `is not null`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionGroup:
    """Conditions joined by `and` or `or`, or one negated by `not`."""

    kind: Literal["and", "or", "not"]
    parts: tuple[Syntax, ...]


Syntax: TypeAlias = Condition | ConditionGroup


def parse(source: str) -> Syntax:
    """Return the syntax tree of the text; FilterError has the position of a fault."""
    return _Parser(source).whole()


_COMPARISONS: Final[dict[str, Operator]] = {
    "=": "=",
    "==": "=",
    "!=": "!=",
    "<>": "!=",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}
_NOT_A_FIELD: Final = frozenset({"and", "or", "not", "in", "between", "like", "is", "null"})


class _Parser:
    def __init__(self, source: str) -> None:
        self._source = source
        self._tokens = scan(source)
        self._index = 0

    def whole(self) -> Syntax:
        if len(self._tokens) == 1:
            raise self._fault(self._next, "there is no condition", "omit `where` to select all")
        tree = self._alternatives(1)
        if self._next.kind != "end":
            raise self._expected("`and`, `or` or the end", None)
        return tree

    def _alternatives(self, depth: int) -> Syntax:
        parts = [self._requirements(depth)]
        while self._take("or"):
            parts.append(self._requirements(depth))
        return parts[0] if len(parts) == 1 else ConditionGroup(kind="or", parts=tuple(parts))

    def _requirements(self, depth: int) -> Syntax:
        parts = [self._one(depth)]
        while self._take("and"):
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else ConditionGroup(kind="and", parts=tuple(parts))

    def _one(self, depth: int) -> Syntax:
        if depth > FILTER_DEPTH_MAX:
            raise self._fault(self._next, f"nested deeper than {FILTER_DEPTH_MAX} levels")
        if self._take("not"):
            return ConditionGroup(kind="not", parts=(self._one(depth + 1),))
        if self._take("("):
            inside = self._alternatives(depth + 1)
            self._require(")")
            return inside
        return self._condition()

    def _condition(self) -> Condition:
        field = self._field()
        is_negated = False
        operator = _COMPARISONS.get(self._next.word)
        if operator is not None:
            self._index += 1
            return Condition(field=field, operator=operator, values=(self._value(),))
        if self._take("is"):
            is_negated = self._take("not")
            self._require("null")
            return Condition(field=field, operator="null", values=(), is_negated=is_negated)
        is_negated = self._take("not")
        if self._take("in"):
            operator, values = "in", self._list()
        elif self._take("between"):
            low = self._value()
            self._require("and")
            operator, values = "between", (low, self._value())
        elif self._take("like"):
            operator, values = "like", (self._value(),)
        elif is_negated:
            raise self._expected("`in`, `between` or `like` after `not`", None)
        else:
            raise self._no_comparison(field)
        return Condition(field=field, operator=operator, values=values, is_negated=is_negated)

    def _field(self) -> WhereToken:
        token = self._next
        if token.kind == "number" or (token.kind == "text" and token.text[0] == "'"):
            hint = "write `lat > 50` instead of `50 < lat`"
            raise self._fault(token, f"a condition begins with a field, not {token.shown}", hint)
        if token.word in _NOT_A_FIELD and token.kind == "word":
            hint = f'a field of that name is written "{token.text}"'
            raise self._fault(token, f"expected a field, found {token.shown}", hint)
        if token.kind not in ("word", "text"):
            raise self._expected("a field", None)
        self._index += 1
        return token

    def _value(self) -> WhereToken:
        token = self._next
        if token.kind in ("mark", "end"):
            raise self._expected("a value", None)
        self._index += 1
        return token

    def _list(self) -> tuple[WhereToken, ...]:
        self._require("(")
        values = [self._value()]
        while self._take(","):
            values.append(self._value())
        self._require(")")
        return tuple(values)

    # -- single tokens

    @property
    def _next(self) -> WhereToken:
        return self._tokens[self._index]

    def _take(self, word: str) -> bool:
        if self._next.word != word:
            return False
        self._index += 1
        return True

    def _require(self, word: str) -> None:
        if not self._take(word):
            raise self._expected(f"`{word}`", None)

    def _no_comparison(self, field: WhereToken) -> FilterError:
        if self._next.word == ".":
            detail = "only fields of the object itself can be tested, not those of its structs"
            return self._fault(self._next, detail)
        return self._expected(
            f"a comparison after {field.shown}", f"for a bool, write `{field.text} = true`"
        )

    def _expected(self, what: str, hint: str | None) -> FilterError:
        return self._fault(self._next, f"expected {what}, found {self._next.shown}", hint)

    def _fault(self, token: WhereToken, message: str, hint: str | None = None) -> FilterError:
        return fault(self._source, token, message, hint)
