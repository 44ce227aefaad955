"""`skerry get`: print the current objects of a type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from skerry.cli.node_options import (
    NodeChoice,
    check_definition,
    check_filter,
    filter_options,
    node_options,
    struct_class,
    type_argument,
    types_option,
)
from skerry.cli.output import current_output, json_option
from skerry.cli.parameters import as_wrong_value, field_names, format_option
from skerry.errors import DecodeError, SkerryError

if TYPE_CHECKING:
    from skerry.objects.base import Struct


@click.command()
@type_argument()
@click.argument("key_parts", nargs=-1, metavar="[KEY]...")
@filter_options
@format_option("the object.")
@types_option
@node_options
@json_option
def get(
    *,
    type_name: str,
    key_parts: tuple[str, ...],
    where: str | None,
    fields: str | None,
    line_format: str | None,
    types: Mapping[str, Any],
    choice: NodeChoice,
    as_json: bool,
) -> None:
    """Print the current objects of a type, or the object with a key.

    A type with several key fields takes one KEY for each, in the order of their declaration. The
    command fails if there is no object with that key. With --json, each line has the fields of the
    object by name, and _key, _sender, _time (of the last change, in seconds since the epoch) and
    _age_s. --format can use the same names, and _object for the object as text.

    \b
    Examples:
      skerry get Vessel
      skerry get Vessel 244660000
      skerry get Vessel --where "lat > 50" --json
      skerry get Vessel --format '{mmsi} {name}'
    """
    from skerry.cli.rows import RowFormat, key_text, object_row
    from skerry.json_values import visible

    output = current_output()
    if as_json and line_format is not None:
        raise click.UsageError("--format and --json exclude each other")
    shape = None if line_format is None else RowFormat(line_format)
    names = field_names(fields)
    with choice.connect_or_fail("skerry-get", types=types) as space:
        cls = struct_class(space, type_name, types)
        if types:
            check_definition(space, type_name)
        if not cls.descriptor.flags.cached:
            raise _not_cached(type_name)
        wanted = _wanted(cls, key_parts) if key_parts else None
        check_filter(cls, where, names)
        if shape is not None:
            shape.check([field.name for field in cls.descriptor.fields])
        condition = _joined(where, wanted)
        with choice.fail_if_silent(space):
            # Without a timeout, since the number of objects is not known.
            container = space.container(cls, where=condition, fields=names, timeout=None)
        if wanted is not None and wanted not in container:
            raise SkerryError(f"no {type_name} has the key {key_text(wanted)}")
        for found in container if wanted is None else [wanted]:
            try:
                obj, info = container[found], container.info(found)
            except KeyError:
                continue  # It was removed in the meantime.
            if as_json:
                output.json_line(object_row(obj, info))
            elif shape is not None:
                row = {**object_row(obj, info), "_type": type_name, "_object": str(obj)}
                output.line(shape.line(row))
            else:
                output.line(visible(str(obj)))


def _not_cached(type_name: str) -> SkerryError:
    error = SkerryError(f"{type_name} is not cached: a node delivers its objects and discards them")
    error.hint = f"subscribe to it with `skerry sub {type_name}`"
    return error


def _wanted(cls: type[Struct], key_parts: tuple[str, ...]) -> Struct:
    """An object that has only this key, to compare with."""
    import json

    from skerry.objects.json import from_json_values
    from skerry.schema.model import Kind

    fields = cls.descriptor.key_fields
    if len(key_parts) != len(fields):
        names = ", ".join(field.name for field in fields) or "empty: there is at most one object"
        raise click.UsageError(f"the key of {cls.descriptor.name} is {names}")
    plain: dict[str, Any] = {}
    for field, text in zip(fields, key_parts, strict=True):
        try:
            plain[field.name] = text if field.type.kind == Kind.STRING else json.loads(text)
        except (ValueError, RecursionError):
            plain[field.name] = text
    with as_wrong_value("KEY", DecodeError):
        obj: Struct = from_json_values(cls, plain)
    return obj


def _joined(where: str | None, wanted: Struct | None) -> str | None:
    """The condition and the key, so that the node sends no other object."""
    conditions = [f"({where})"] if where else []
    if wanted is not None:
        from skerry.objects.json import to_json_values
        from skerry.schema.model import Kind

        plain = to_json_values(wanted)
        conditions += [
            f'"{field.name}" = {_literal(plain[field.name])}'
            for field in wanted.descriptor.key_fields
            # Bytes and structs cannot be compared by a condition; `get` selects the object itself.
            if field.type.kind not in (Kind.BYTES, Kind.ANY, Kind.REF, Kind.STRUCT, Kind.VECTOR)
        ]
    return " and ".join(conditions) or None


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)
