"""Model types to text, in the layout of the formatter. Parsing the text gives equal types."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from skerry.errors import SchemaCheckError, SchemaMismatchError
from skerry.schema.language.syntax import join_documentation
from skerry.schema.model import (
    EnumElement,
    EnumType,
    Field,
    NamedType,
    Option,
    RemovedField,
    StructType,
    dependencies,
)

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def write_types(types: Iterable[NamedType], *, package: str | None = None) -> str:
    """The text of a file that defines `types`. Types inside that are not given precede their user.

    Raises SchemaMismatchError if two different types have one name.
    """
    parts = [] if package is None else [f"package {package}\n"]
    parts += [write_type(type_) for type_ in _with_needs(list(types))]
    return "\n".join(parts)


def write_type(type_: NamedType) -> str:
    """The text of one definition, without those of the types inside.

    Raises SchemaCheckError if a name is not valid in the language.
    """
    rows = _enum_rows(type_) if isinstance(type_, EnumType) else _struct_rows(type_)
    return "".join(f"{row}\n" for row in rows)


def quote(text: str) -> str:
    """The text as a string of the language, in the quotes that require fewer escapes."""
    inner = json.dumps(text, ensure_ascii=False)[1:-1].replace("\x7f", "\\u007f")
    if '"' in text and "'" not in text:
        return "'" + inner.replace('\\"', '"') + "'"
    return f'"{inner}"'


def _with_needs(types: Sequence[NamedType]) -> Iterator[NamedType]:
    known: dict[str, NamedType] = {}
    for type_ in types:
        for needed in (*dependencies(type_), type_):
            first = known.setdefault(needed.name, needed)
            if first is not needed and first != needed:
                raise SchemaMismatchError(
                    name=needed.name,
                    known="one definition",
                    offered="another",
                    difference="a file defines a name once",
                )
    given = {type_.name for type_ in types}
    written: set[str] = set()
    for type_ in types:
        extra = [needed for needed in dependencies(type_) if needed.name not in given]
        for needed in (*extra, type_):
            if needed.name not in written:
                written.add(needed.name)
                yield needed


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise SchemaCheckError(f"{text!r} cannot be written: it is not a name of the type language")
    return text


def _documentation(text: str, indent: str = "") -> list[str]:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    text = join_documentation(lines)
    return [f"{indent}/// {line}".rstrip() for line in text.split("\n")] if text else []


# -- structs


def _struct_rows(struct: StructType) -> list[str]:
    options = [*_struct_options(struct), *struct.options]
    rows = _documentation(struct.documentation)
    rows.append(f"struct {_name(struct.name)} {_options(options)}{{")
    for field in struct.fields:
        rows += _field_rows(field)
    for removed in struct.removed:
        rows += _removed_rows(removed)
    return [*rows, "}"]


def _struct_options(struct: StructType) -> Iterator[Option]:
    yield from struct.flags.not_default()
    if struct.scope is not None:
        yield "scope", struct.scope.name.lower()
    if struct.is_deprecated:
        yield "deprecated", True


def _field_rows(field: Field) -> list[str]:
    options: list[Option] = []
    options += [("key", True)] * field.is_key
    options += [("deprecated", True)] * field.is_deprecated
    options += [("ctor", True)] * field.is_ctor
    if field.default is not None:
        options.append(("default", field.default))
    options += field.options
    code = f"{field.tag}: {_options(options)}{_type_name(field.type.name)} {_name(field.name)};"
    return [*_documentation(field.documentation, "    "), f"    {code}"]


def _removed_rows(removed: RemovedField) -> list[str]:
    code = f"{removed.tag}: [removed] {_type_name(removed.type_name)} {_name(removed.name)};"
    return [*_documentation(removed.documentation, "    "), f"    {code}"]


def _type_name(text: str) -> str:
    inner = text
    while inner.startswith("vector<") and inner.endswith(">"):
        inner = inner[len("vector<") : -1]
    if inner.startswith("instance_ref<") and inner.endswith(">"):
        inner = inner[len("instance_ref<") : -1]
    _name(inner)
    return text


# -- enums


def _enum_rows(enum: EnumType) -> list[str]:
    rows = _documentation(enum.documentation)
    rows.append(f"enum {_name(enum.name)} {_options(enum.options)}{{")
    last = len(enum.elements) - 1
    for index, element in enumerate(enum.elements):
        rows += _documentation(element.documentation, "    ")
        rows.append(f"    {_element_code(element)}{',' if index < last else ''}")
    return [*rows, "}"]


def _element_code(element: EnumElement) -> str:
    value = "" if element.value == element.tag - 1 else f" = {element.value}"
    return f"{element.tag}: {_name(element.name)}{value}"


def _options(options: Iterable[Option]) -> str:
    written = ", ".join(_option(name, value) for name, value in options)
    return f"[{written}] " if written else ""


def _option(name: str, value: str | bool) -> str:
    if value is True:
        return _name(name)
    if value is False:
        return f"{_name(name)}=false"
    return f"{_name(name)}={quote(value)}"
