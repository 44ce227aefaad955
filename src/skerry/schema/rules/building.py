"""Builds one model type from its syntax, and checks the rules about its parts."""

from __future__ import annotations

from typing import Final

from skerry import limits
from skerry.schema.language.problems import ProblemList
from skerry.schema.language.syntax import ElementSyntax, EnumSyntax, FieldSyntax, StructSyntax, Word
from skerry.schema.model import (
    INTEGER_RANGES,
    EnumElement,
    EnumType,
    Field,
    FieldType,
    Kind,
    NamedType,
    RemovedField,
    StructType,
)
from skerry.schema.rules import usage
from skerry.schema.rules.defaults import NO_JSON, TEXT_HINT, TEXT_KINDS, default_fault
from skerry.schema.rules.options import (
    ENUM_OPTIONS,
    FIELD_OPTIONS,
    STRUCT_OPTIONS,
    OptionSet,
    read_options,
    struct_options,
)
from skerry.schema.rules.typenames import TypeNames

_VALUE_MIN, _VALUE_MAX = INTEGER_RANGES[Kind.INT32]
_TAG_HINT: Final = "group fields into a struct of their own when the tags run out"


class Builder:
    """Builds model types. Faults are reported to the problem list."""

    def __init__(self, names: TypeNames, problems: ProblemList) -> None:
        self._names = names
        self._problems = problems
        self._error = problems.error

    def build(self, item: StructSyntax | EnumSyntax) -> NamedType | None:
        """The type that `item` defines, or None if it cannot be used."""
        self._check_name(item.name)
        if isinstance(item, EnumSyntax):
            return self._enum(item)
        return self._struct(item)

    # -- structs

    def _struct(self, item: StructSyntax) -> StructType | None:
        options = read_options(item.options, STRUCT_OPTIONS, self._problems)
        flags, scope = struct_options(options, item.name.text, self._problems)
        fields: list[Field] = []
        removed: list[RemovedField] = []
        is_broken = False
        tags: dict[int, Word] = {}
        names: dict[str, Word] = {}
        for part in item.fields:
            self._check_tag("field", part, limits.TAG_MIN, limits.TAG_MAX, tags, _TAG_HINT)
            part_options = read_options(part.options, FIELD_OPTIONS, self._problems)
            self._check_name(part.name)
            if part_options.flag("removed"):
                removed.append(self._removed(part, part_options))
                continue
            self._unique_name(part.name, names, "field")
            built = self._field(part, part_options)
            if built is None:
                is_broken = True
            else:
                fields.append(built)
        if not fields and not is_broken:
            self._error(item.name, f"struct `{item.name.text}` has only removed fields")
        if is_broken:
            return None
        struct = StructType(
            name=item.name.text,
            fields=tuple(fields),
            flags=flags,
            scope=scope,
            is_deprecated=options.flag("deprecated"),
            removed=tuple(removed),
            documentation=self._documentation(item.name, item.notes.documentation),
            options=options.others,
        )
        return struct if self._has_legal_depth(item.name, struct.depth) else None

    def _field(self, part: FieldSyntax, options: OptionSet) -> Field | None:
        type_ = self._names.resolve(part.type, self._problems)
        if type_ is None:
            return None
        is_key = options.flag("key")
        if is_key:
            usage.check_key(part, type_, self._problems)
        default = options.texts.get("default")
        self._check_default(part, type_, options)
        return Field(
            tag=int(part.tag.text),
            name=part.name.text,
            type=type_,
            is_key=is_key,
            is_deprecated=options.flag("deprecated"),
            is_ctor=options.flag("ctor"),
            default=default,
            documentation=self._documentation(part.name, part.notes.documentation),
            options=options.others,
        )

    def _removed(self, part: FieldSyntax, options: OptionSet) -> RemovedField:
        for name in ("key", "ctor", "deprecated", "default"):
            if name in options.words:
                self._problems.warning(
                    options.words[name],
                    f"option `{name}` has no effect: field `{part.name.text}` is removed",
                )
        return RemovedField(
            tag=int(part.tag.text),
            name=part.name.text,
            type_name=part.type.text,
            documentation=self._documentation(part.name, part.notes.documentation),
        )

    def _unique_name(self, name: Word, seen: dict[str, Word], what: str) -> None:
        first = seen.setdefault(name.text, name)
        if first is not name:
            self._error(name, f"{what} `{name.text}` is defined twice: first on line {first.line}")

    def _check_default(self, part: FieldSyntax, type_: FieldType, options: OptionSet) -> None:
        text = options.texts.get("default")
        fault = None if text is None else default_fault(type_, text)
        if fault is not None:
            self._error(
                options.words["default"],
                f"the default of `{part.name.text}` does not fit {type_.name}: {fault}",
                hint=TEXT_HINT if fault == NO_JSON and type_.kind in TEXT_KINDS else None,
            )

    def _has_legal_depth(self, name: Word, depth: int) -> bool:
        if depth > limits.TYPE_DEPTH_MAX:
            self._error(
                name,
                f"struct `{name.text}` is {depth} structs deep, the limit is "
                f"{limits.TYPE_DEPTH_MAX}",
            )
        return depth <= limits.TYPE_DEPTH_MAX

    # -- enums

    def _enum(self, item: EnumSyntax) -> EnumType:
        options = read_options(item.options, ENUM_OPTIONS, self._problems)
        if len(item.elements) > limits.ENUM_ELEMENT_COUNT_MAX:
            self._error(
                item.name,
                f"enum `{item.name.text}` has {len(item.elements)} elements, the limit is "
                f"{limits.ENUM_ELEMENT_COUNT_MAX}",
            )
        tags: dict[int, Word] = {}
        names: dict[str, Word] = {}
        values: dict[int, Word] = {}
        return EnumType(
            name=item.name.text,
            elements=tuple(self._element(e, tags, names, values) for e in item.elements),
            documentation=self._documentation(item.name, item.notes.documentation),
            options=options.written,
        )

    def _element(
        self,
        part: ElementSyntax,
        tags: dict[int, Word],
        names: dict[str, Word],
        values: dict[int, Word],
    ) -> EnumElement:
        tag = int(part.tag.text)
        name = part.name
        self._check_name(name)
        self._unique_name(name, names, "element")
        self._check_tag("element", part, 1, limits.ENUM_TAG_MAX, tags)
        value = tag - 1 if part.value is None else int(part.value.text)
        if part.value is not None and not _VALUE_MIN <= value <= _VALUE_MAX:
            self._error(
                part.value,
                f"value {value} of element `{name.text}` is not in {_VALUE_MIN}..{_VALUE_MAX}",
            )
        elif value in values:
            self._problems.warning(
                part.value or name,
                f"element `{name.text}` has the value {value} of `{values[value].text}`",
                hint="without `= value` an element has its tag less one",
            )
        values.setdefault(value, name)
        return EnumElement(
            tag=tag,
            name=name.text,
            value=value,
            documentation=self._documentation(name, part.notes.documentation),
        )

    # -- both

    def _check_tag(
        self,
        what: str,
        part: FieldSyntax | ElementSyntax,
        low: int,
        high: int,
        seen: dict[int, Word],
        hint: str | None = None,
    ) -> None:
        tag, first = int(part.tag.text), seen.setdefault(int(part.tag.text), part.name)
        if not low <= tag <= high:
            message = f"tag {tag} of {what} `{part.name.text}` is not in {low}..{high}"
            self._error(part.tag, message, hint=hint)
        elif first is not part.name:
            self._error(part.tag, f"tag {tag} is taken by `{first.text}` of line {first.line}")

    def _check_name(self, name: Word) -> None:
        # Names are ASCII, so characters are bytes.
        if len(name.text) > limits.NAME_BYTES_MAX:
            self._error(
                name,
                f"a name of {len(name.text)} bytes is too long: the limit is "
                f"{limits.NAME_BYTES_MAX}",
            )

    def _documentation(self, name: Word, text: str) -> str:
        size = len(text.encode())
        if size > limits.DOCUMENTATION_BYTES_MAX:
            self._error(
                name,
                f"the documentation of `{name.text}` has {size} bytes, the limit is "
                f"{limits.DOCUMENTATION_BYTES_MAX}",
            )
        return text
