"""Compilation of a `where` and of the names of fields to a DotsFilter, which is transmitted.

The language is reduced to the few comparisons that every host of filtered subscriptions has, each
with the value in the slot for the kind of the field. Only `like` is an addition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from skerry.errors import FilterError, Problem
from skerry.limits import FILTER_LIST_COUNT_MAX
from skerry.objects.internal import internal_class
from skerry.protocol.access.where.filter_tree import LIKE, predicate_tree
from skerry.protocol.access.where.lexer import WhereToken, fault
from skerry.protocol.access.where.parser import Condition, ConditionGroup, Syntax, parse
from skerry.protocol.access.where.values import Meaning, field_named
from skerry.schema.model import INTEGER_RANGES, Field, Kind, StructType
from skerry.suggestions import nearest


def make_filter(
    type_: StructType, where: str | None = None, fields: Iterable[str] | None = None
) -> Any:
    """Return the DotsFilter of a condition and of selected fields, which include the key."""
    wanted = internal_class("DotsFilter")()
    if where is not None:
        wanted.predicate = compile_where(where, type_)
    if fields is not None:
        wanted.propertyMask = _mask(type_, fields)
    return wanted


def compile_where(text: str, type_: StructType) -> Any:
    """Return the DotsPredicate of a condition; FilterError has the position of a fault."""
    nodes = _Compiler(text, type_).nodes(parse(text))
    predicate = internal_class("DotsPredicate")(nodes=nodes)
    try:
        predicate_tree(predicate)
    except FilterError as error:
        raise fault(text, WhereToken("end", "", 0), error.problems[0].message) from None
    return predicate


def uses_like(filter_: Any) -> bool:
    """Return whether a DotsFilter needs a host that supports `like`."""
    nodes = filter_.predicate.nodes if filter_.predicate is not None else None
    ops = [node.leaf.op for node in nodes or () if node.leaf is not None]
    return any(op is not None and op.tag == LIKE for op in ops)


def _mask(type_: StructType, names: Iterable[str]) -> int:
    if isinstance(names, str):
        raise TypeError(f"expected the names of fields, got the text {names!r}")
    mask = type_.key_mask
    for name in names:
        field = field_named(type_, name)
        if field is None:
            guess = nearest(name, [known.name for known in type_.fields])
            hint = f"did you mean {guess}?" if guess else None
            message = f"{type_.name} has no field {name:.60}"
            raise FilterError([Problem(message=message, file="fields", text=name, hint=hint)])
        mask |= 1 << field.tag
    return mask


# -- nodes of the wire

_OPERATORS: Final = {
    "=": "eq",
    "!=": "neq",
    "<": "lt",
    "<=": "le",
    ">": "gt",
    ">=": "ge",
}
_WORDS: Final = {"and": "andOp", "or": "orOp", "not": "notOp"}

_SLOTS: Final = {
    Kind.BOOL: "boolVal",
    Kind.STRING: "stringVal",
    Kind.UUID: "uuidVal",
    Kind.ENUM: "uintVal",
    Kind.TIMEPOINT: "timepointVal",
    Kind.DURATION: "durationVal",
    Kind.STEADY_TIMEPOINT: "floatVal",
    Kind.FLOAT16: "floatVal",
    Kind.FLOAT32: "floatVal",
    Kind.FLOAT64: "floatVal",
    **{kind: "intVal" if low < 0 else "uintVal" for kind, (low, _) in INTEGER_RANGES.items()},
}
_LIST_SLOTS: Final = {
    "intVal": "intList",
    "uintVal": "uintList",
    "floatVal": "floatList",
    "stringVal": "stringList",
    "timepointVal": "timepointList",
    "uuidVal": "uuidList",
}
_UNORDERED: Final = (Kind.BOOL, Kind.ENUM)


def _leaf(field: Field, op: str, **value: Any) -> list[Any]:
    leaf = internal_class("DotsPredicateLeaf")(propertyTag=field.tag)
    leaf.op = internal_class("DotsCompareOp")[op]
    if value:
        leaf.value = internal_class("DotsPredicateValue")(**value)
    kind = internal_class("DotsPredicateKind")["leaf"]
    return [internal_class("DotsPredicateNode")(kind=kind, leaf=leaf)]


def _joined(word: str, parts: Sequence[list[Any]]) -> list[Any]:
    kind = internal_class("DotsPredicateKind")[_WORDS[word]]
    head = internal_class("DotsPredicateNode")(kind=kind, arity=len(parts))
    return [head, *(node for part in parts for node in part)]


class _Compiler:
    """Turns the syntax tree of one text into nodes in pre-order."""

    def __init__(self, source: str, type_: StructType) -> None:
        self._source = source
        self._meaning = Meaning(source, type_)

    def nodes(self, tree: Syntax) -> list[Any]:
        if isinstance(tree, ConditionGroup):
            return _joined(tree.kind, [self.nodes(part) for part in tree.parts])
        field = self._meaning.field(tree.field)
        if tree.operator == "null":
            return _leaf(field, "notNull" if tree.is_negated else "isNull")
        self._check_kind(field, tree)
        if tree.operator == "in":
            return self._list(field, tree)
        if tree.operator == "between":
            low, high = tree.values
            inside = [self._ordered(field, ">=", low), self._ordered(field, "<=", high)]
            return self._negated(field, tree, _joined("and", inside))
        if tree.operator == "like":
            pattern = self._meaning.pattern(field, tree.values[0])
            return self._negated(field, tree, _leaf(field, "like", stringVal=pattern))
        if tree.operator in ("=", "!="):
            return self._comparison(field, tree.operator, tree.values[0])
        return self._ordered(field, tree.operator, tree.values[0])

    def _check_kind(self, field: Field, tree: Condition) -> None:
        kind = field.type.kind
        if kind not in _SLOTS:
            detail = f"{field.name} is of type {field.type.name}, which cannot be compared"
            hint = "use only `is null` and `is not null` with it"
            raise fault(self._source, tree.field, detail, hint)
        if tree.operator in ("<", "<=", ">", ">=", "between") and kind in _UNORDERED:
            detail = f"{field.name} is of type {field.type.name}, which has no order"
            hint = "compare it with `=`, `!=` or `in`"
            raise fault(self._source, tree.field, detail, hint)
        if tree.operator == "like" and kind != Kind.STRING:
            detail = f"{field.name} is of type {field.type.name}, and `like` is for text"
            raise fault(self._source, tree.field, detail)

    def _comparison(self, field: Field, operator: str, token: WhereToken) -> list[Any]:
        value = self._meaning.value(field, token)
        return _leaf(field, _OPERATORS[operator], **{_SLOTS[field.type.kind]: value})

    def _ordered(self, field: Field, operator: str, token: WhereToken) -> list[Any]:
        operator, value = self._meaning.bound(field, operator, token)
        return _leaf(field, _OPERATORS[operator], **{_SLOTS[field.type.kind]: value})

    def _list(self, field: Field, tree: Condition) -> list[Any]:
        if len(tree.values) > FILTER_LIST_COUNT_MAX:
            detail = f"a list of {len(tree.values)} values, the limit is {FILTER_LIST_COUNT_MAX}"
            raise fault(self._source, tree.values[0], detail)
        slot = _LIST_SLOTS.get(_SLOTS[field.type.kind])
        if slot is not None:
            values = [self._meaning.value(field, token) for token in tree.values]
            return _leaf(field, "notIn" if tree.is_negated else "isIn", **{slot: values})
        # There are no lists of bools and durations on the wire.
        operator = "!=" if tree.is_negated else "="
        parts = [self._comparison(field, operator, token) for token in tree.values]
        return parts[0] if len(parts) == 1 else _joined("and" if tree.is_negated else "or", parts)

    def _negated(self, field: Field, tree: Condition, nodes: list[Any]) -> list[Any]:
        """Negate the nodes if the condition is negated; for an unset field neither is true."""
        if not tree.is_negated:
            return nodes
        return _joined("and", [_leaf(field, "notNull"), _joined("not", [nodes])])
