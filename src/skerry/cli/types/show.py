"""`skerry types show`: print the types of type files."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from skerry.cli.output import Output, current_output, json_option
from skerry.cli.types.sources import files_argument, load_files
from skerry.errors import SchemaError
from skerry.json_values import visible

if TYPE_CHECKING:
    from skerry.schema.model import EnumType, Field, NamedType, StructType


@click.command()
@files_argument
@click.option(
    "-t",
    "--type",
    "names",
    metavar="NAME",
    multiple=True,
    help="Only this type; may be repeated. Default: all types.",
)
@json_option
def show(*, files: Sequence[str], names: Sequence[str], as_json: bool) -> None:
    """Print the types that type files define.

    Types are printed in the order of the files, imported types last. Definitions that encode alike
    have equal fingerprints.

    \b
    Examples:
      skerry types show fleet.dots
      skerry types show fleet.dots --type Vessel
      skerry types show --json fleet.dots | jq -r .name
    """
    output = current_output()
    checked = load_files(files)
    chosen = _chosen(checked.types, names)
    if not chosen and not as_json:
        output.note("the files define no types")
    for index, type_ in enumerate(chosen):
        origin = checked.origins[type_.name]
        if as_json:
            output.json_line(_row(type_, origin))
        else:
            _print_type(output, type_, origin, is_first=index == 0)


def _chosen(types: Sequence[NamedType], names: Sequence[str]) -> list[NamedType]:
    from skerry.suggestions import nearest

    known = {type_.name: type_ for type_ in types}
    for name in names:
        if name not in known:
            error = SchemaError(f"the files do not define a type {name}")
            guess = nearest(name, known)
            error.hint = f"did you mean {guess}?" if guess else f"they define {', '.join(known)}"
            raise error
    return [known[name] for name in names] if names else list(types)


# -- text


def _print_type(output: Output, type_: NamedType, origin: str, *, is_first: bool) -> None:
    from rich.text import Text

    from skerry.schema.model import EnumType

    if not is_first:
        output.line("")
    head = Text(f"{type_.kind.name.lower()} ")
    head.append(type_.name, style="bold")
    head.append(f"  {visible(origin)}", style="dim")
    output.console(sys.stdout).print(head, soft_wrap=True)
    # Not splitlines(), which also splits at form feeds and similar characters.
    for line in type_.documentation.split("\n") if type_.documentation else ():
        output.line(f"  {visible(line)}".rstrip())
    output.line(f"  {visible(', '.join(_traits(type_)))}")
    if isinstance(type_, EnumType):
        rows = [(e.tag, e.name, e.value, _first_line(e.documentation)) for e in type_.elements]
        output.table(("  tag", "name", "value", "documentation"), _indented(rows))
        return
    fields = [
        (f.tag, f.name, f.type.name, ", ".join(_options(f)), _first_line(f.documentation))
        for f in type_.fields
    ]
    removed = [
        (r.tag, r.name, r.type_name, "removed", _first_line(r.documentation)) for r in type_.removed
    ]
    output.table(("  tag", "name", "type", "options", "documentation"), _indented(fields + removed))


def _indented(rows: Sequence[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return [(f"  {first}", *rest) for first, *rest in rows]


def _traits(type_: NamedType) -> list[str]:
    from skerry.schema.model import StructType

    traits: list[str] = []
    if isinstance(type_, StructType):
        traits += [name for name, is_on in _flags(type_).items() if is_on]
        traits += [] if type_.flags.cached else ["not cached"]
        traits += ["deprecated"] if type_.is_deprecated else []
        traits.append(f"scope {type_.effective_scope.name.lower()}")
        keys = [field.name for field in type_.key_fields]
        traits.append(f"key {' + '.join(keys)}" if keys else "no key")
    traits += [_option(*option) for option in type_.options]
    return [*traits, f"fingerprint {_fingerprint(type_)}"]


def _options(field: Field) -> list[str]:
    options = ["key"] if field.is_key else []
    options += ["deprecated"] if field.is_deprecated else []
    options += ["ctor"] if field.is_ctor else []
    options += [] if field.default is None else [f"default={field.default}"]
    return [*options, *(_option(*option) for option in field.options)]


def _option(name: str, value: str | bool) -> str:
    return name if value is True else f"{name}={value}"


def _first_line(documentation: str) -> str:
    first, more, _ = documentation.partition("\n")
    return f"{first} ..." if more else first


# -- JSON


def _row(type_: NamedType, origin: str) -> dict[str, object]:
    from skerry.schema.model import EnumType

    file, _, line = origin.rpartition(":")
    row: dict[str, object] = {
        "kind": type_.kind.name.lower(),
        "name": type_.name,
        "fingerprint": _fingerprint(type_),
    }
    row |= _enum_row(type_) if isinstance(type_, EnumType) else _struct_row(type_)
    return row | {
        "options": dict(type_.options),
        "documentation": type_.documentation,
        "_file": click.format_filename(file),
        "_line": int(line),
    }


def _enum_row(type_: EnumType) -> dict[str, object]:
    return {
        "elements": [
            {"tag": e.tag, "name": e.name, "value": e.value, "documentation": e.documentation}
            for e in type_.elements
        ]
    }


def _struct_row(type_: StructType) -> dict[str, object]:
    return {
        "flags": dict(_flags(type_)),
        "scope": type_.effective_scope.name.lower(),
        "deprecated": type_.is_deprecated,
        "fields": [
            {
                "tag": field.tag,
                "name": field.name,
                "type": field.type.name,
                "key": field.is_key,
                "deprecated": field.is_deprecated,
                "ctor": field.is_ctor,
                "default": field.default,
                "options": dict(field.options),
                "documentation": field.documentation,
            }
            for field in type_.fields
        ],
        "removed": [
            {"tag": r.tag, "name": r.name, "type": r.type_name, "documentation": r.documentation}
            for r in type_.removed
        ],
    }


def _flags(type_: StructType) -> Mapping[str, bool]:
    import dataclasses

    return dataclasses.asdict(type_.flags)


def _fingerprint(type_: NamedType) -> str:
    from skerry.schema.fingerprint import fingerprint

    # In hexadecimal digits: JSON readers of other languages round 64-bit numbers.
    return f"{fingerprint(type_) & (1 << 64) - 1:016x}"
