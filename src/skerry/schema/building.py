"""Builds one model type from its syntax, and checks the rules about its parts."""

from __future__ import annotations

from skerry import limits
from skerry.schema import usage
from skerry.schema.defaults import NO_JSON, TEXT_HINT, TEXT_KINDS, default_fault
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
from skerry.schema.options import (
    ENUM_OPTIONS,
    FIELD_OPTIONS,
    STRUCT_OPTIONS,
    OptionSet,
    read_options,
    struct_options,
)
from skerry.schema.problems import ProblemList, Spot
from skerry.schema.syntax import ElementSyntax, EnumSyntax, FieldSyntax, StructSyntax, Word
from skerry.schema.typenames import TypeNames

_VALUE_MIN, _VALUE_MAX = INTEGER_RANGES[Kind.INT32]


class Builder:
    """Builds model types. Faults are reported to the problem list."""

    def __init__(self, names: TypeNames, problems: ProblemList) -> None:
        self._names = names
        self._problems = problems

    def build(self, file: str, item: StructSyntax | EnumSyntax) -> NamedType | None:
        """The type that `item` defines, or None if it cannot be used."""
        self._check_name(file, item.name)
        if isinstance(item, EnumSyntax):
            return self._enum(file, item)
        return self._struct(file, item)

    def _error(self, file: str, at: Spot, message: str, *, hint: str | None = None) -> None:
        self._problems.error(file, at, message, hint=hint)

    # -- structs

    def _struct(self, file: str, item: StructSyntax) -> StructType | None:
        options = read_options(
            item.options, known=STRUCT_OPTIONS, file=file, problems=self._problems
        )
        flags, scope = struct_options(
            options, name=item.name.text, file=file, problems=self._problems
        )
        fields: list[Field] = []
        removed: list[RemovedField] = []
        is_broken = False
        tags: dict[int, Word] = {}
        names: dict[str, Word] = {}
        for part in item.fields:
            self._field_tag(file, part, tags)
            part_options = read_options(
                part.options, known=FIELD_OPTIONS, file=file, problems=self._problems
            )
            self._check_name(file, part.name)
            if part_options.flag("removed"):
                removed.append(self._removed(file, part, part_options))
                continue
            self._unique_name(file, part.name, names, "field")
            built = self._field(file, part, part_options)
            if built is None:
                is_broken = True
            else:
                fields.append(built)
        if not fields and not is_broken:
            self._error(file, item.name, f"struct `{item.name.text}` has only removed fields")
        if is_broken:
            return None
        struct = StructType(
            name=item.name.text,
            fields=tuple(fields),
            flags=flags,
            scope=scope,
            is_deprecated=options.flag("deprecated"),
            removed=tuple(removed),
            documentation=self._documentation(file, item.name, item.notes.documentation),
            options=options.others,
        )
        return struct if self._has_legal_depth(file, item.name, struct.depth) else None

    def _field(self, file: str, part: FieldSyntax, options: OptionSet) -> Field | None:
        type_ = self._names.resolve(file, part.type)
        if type_ is None:
            return None
        is_key = options.flag("key")
        if is_key:
            usage.check_key(file, part, type_, self._problems)
        default = options.texts.get("default")
        self._check_default(file, part, type_, options)
        return Field(
            tag=int(part.tag.text),
            name=part.name.text,
            type=type_,
            is_key=is_key,
            is_deprecated=options.flag("deprecated"),
            is_ctor=options.flag("ctor"),
            default=default,
            documentation=self._documentation(file, part.name, part.notes.documentation),
            options=options.others,
        )

    def _removed(self, file: str, part: FieldSyntax, options: OptionSet) -> RemovedField:
        for name in ("key", "ctor", "deprecated", "default"):
            if name in options.words:
                self._problems.warning(
                    file,
                    options.words[name],
                    f"option `{name}` has no effect: field `{part.name.text}` is removed",
                )
        return RemovedField(
            tag=int(part.tag.text),
            name=part.name.text,
            type_name=part.type.text,
            documentation=self._documentation(file, part.name, part.notes.documentation),
        )

    def _field_tag(self, file: str, part: FieldSyntax, seen: dict[int, Word]) -> None:
        tag = int(part.tag.text)
        if not limits.TAG_MIN <= tag <= limits.TAG_MAX:
            self._error(
                file,
                part.tag,
                f"tag {tag} of field `{part.name.text}` is not in "
                f"{limits.TAG_MIN}..{limits.TAG_MAX}",
                hint="group fields into a struct of their own when the tags run out",
            )
        elif tag in seen:
            self._error(
                file,
                part.tag,
                f"tag {tag} is taken by `{seen[tag].text}` of line {seen[tag].line}",
            )
        seen.setdefault(tag, part.name)

    def _unique_name(self, file: str, name: Word, seen: dict[str, Word], what: str) -> None:
        first = seen.setdefault(name.text, name)
        if first is not name:
            self._error(
                file, name, f"{what} `{name.text}` is defined twice: first on line {first.line}"
            )

    def _check_default(
        self, file: str, part: FieldSyntax, type_: FieldType, options: OptionSet
    ) -> None:
        text = options.texts.get("default")
        fault = None if text is None else default_fault(type_, text)
        if fault is not None:
            self._error(
                file,
                options.words["default"],
                f"the default of `{part.name.text}` does not fit {type_.name}: {fault}",
                hint=TEXT_HINT if fault == NO_JSON and type_.kind in TEXT_KINDS else None,
            )

    def _has_legal_depth(self, file: str, name: Word, depth: int) -> bool:
        if depth > limits.TYPE_DEPTH_MAX:
            self._error(
                file,
                name,
                f"struct `{name.text}` is {depth} structs deep, the limit is "
                f"{limits.TYPE_DEPTH_MAX}",
            )
        return depth <= limits.TYPE_DEPTH_MAX

    # -- enums

    def _enum(self, file: str, item: EnumSyntax) -> EnumType:
        options = read_options(item.options, known=ENUM_OPTIONS, file=file, problems=self._problems)
        if len(item.elements) > limits.ENUM_ELEMENT_COUNT_MAX:
            self._error(
                file,
                item.name,
                f"enum `{item.name.text}` has {len(item.elements)} elements, the limit is "
                f"{limits.ENUM_ELEMENT_COUNT_MAX}",
            )
        tags: dict[int, Word] = {}
        names: dict[str, Word] = {}
        values: dict[int, Word] = {}
        return EnumType(
            name=item.name.text,
            elements=tuple(self._element(file, e, tags, names, values) for e in item.elements),
            documentation=self._documentation(file, item.name, item.notes.documentation),
            options=options.written,
        )

    def _element(
        self,
        file: str,
        part: ElementSyntax,
        tags: dict[int, Word],
        names: dict[str, Word],
        values: dict[int, Word],
    ) -> EnumElement:
        tag = int(part.tag.text)
        name = part.name
        self._check_name(file, name)
        self._unique_name(file, name, names, "element")
        if not 1 <= tag <= limits.ENUM_TAG_MAX:
            self._error(
                file,
                part.tag,
                f"tag {tag} of element `{name.text}` is not in 1..{limits.ENUM_TAG_MAX}",
            )
        elif tag in tags:
            self._error(
                file,
                part.tag,
                f"tag {tag} is taken by `{tags[tag].text}` of line {tags[tag].line}",
            )
        tags.setdefault(tag, name)
        value = tag - 1 if part.value is None else int(part.value.text)
        if part.value is not None and not _VALUE_MIN <= value <= _VALUE_MAX:
            self._error(
                file,
                part.value,
                f"value {value} of element `{name.text}` is not in {_VALUE_MIN}..{_VALUE_MAX}",
            )
        elif value in values:
            self._problems.warning(
                file,
                part.value or name,
                f"element `{name.text}` has the value {value} of `{values[value].text}`",
                hint="without `= value` an element has its tag less one",
            )
        values.setdefault(value, name)
        return EnumElement(
            tag=tag,
            name=name.text,
            value=value,
            documentation=self._documentation(file, name, part.notes.documentation),
        )

    # -- both

    def _check_name(self, file: str, name: Word) -> None:
        # Names are ASCII, so characters are bytes.
        if len(name.text) > limits.NAME_BYTES_MAX:
            self._error(
                file,
                name,
                f"a name of {len(name.text)} bytes is too long: the limit is "
                f"{limits.NAME_BYTES_MAX}",
            )

    def _documentation(self, file: str, name: Word, text: str) -> str:
        size = len(text.encode())
        if size > limits.DOCUMENTATION_BYTES_MAX:
            self._error(
                file,
                name,
                f"the documentation of `{name.text}` has {size} bytes, the limit is "
                f"{limits.DOCUMENTATION_BYTES_MAX}",
            )
        return text
