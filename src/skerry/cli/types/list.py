"""`skerry types list`: the types that a node knows."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from time import time
from typing import TYPE_CHECKING, Any, Final

import click

from skerry.cli.nodes import NodeChoice, node_options, types_option
from skerry.cli.output import current_output, json_option

if TYPE_CHECKING:
    from skerry.client.sync import Space

__all__ = ["list_types"]

_LEDGER_S_MAX: Final = 2.5
"""How long to wait for the counts, which a node tells each second."""


@click.command(name="list")
@click.option("--quick", is_flag=True, help="Leave out the counts, which take a second.")
@types_option
@node_options
@json_option
def list_types(*, quick: bool, types: Mapping[str, Any], choice: NodeChoice, as_json: bool) -> None:
    """List the types that a node knows: objects, who publishes and who follows.

    With --types each is compared with its definition there: `conflict` says in what the two
    differ, and the command fails if any does. A host that tells no ledger leaves the counts empty.

    \b
    Examples:
      skerry types list
      skerry types list --json
      skerry types list --types fleet.dots
    """
    output = current_output()
    with choice.connect("skerry-types") as space:
        rows = _rows(space, types, with_counts=not quick)
    if as_json:
        for row in rows:
            output.json_line(row)
    else:
        columns = ("name", "flags", "objects", "members", "publishers", "conflict")
        output.table(columns, [_cells(row, columns) for row in rows])
    if any(row["conflict"] for row in rows):
        output.error("the node knows other definitions of some types than the files")
        click.get_current_context().exit(1)


def _rows(space: Space, types: Mapping[str, Any], *, with_counts: bool) -> list[dict[str, Any]]:
    from skerry.apps.top import NodeWatch

    known = space.request_types()
    lines: dict[str, Any] = {}
    if with_counts:
        watch = NodeWatch(space)
        watch.wait_ledger(_LEDGER_S_MAX)
        lines = {line.name: line for line in watch.snapshot(time()).types}
    conflicts = _conflicts(known, types)
    rows = []
    for name, cls in sorted(known.items()):
        line = lines.get(name)
        rows.append(
            {
                "name": name,
                "kind": _kind(cls),
                "flags": _flags(cls),
                "objects": None if line is None else line.object_count,
                "members": None if line is None else line.member_count,
                "publishers": [] if line is None else list(line.publishers),
                "conflict": conflicts.get(name),
            }
        )
    return rows


def _conflicts(known: Mapping[str, Any], types: Mapping[str, Any]) -> dict[str, str]:
    """In what the node's definition of a type differs from that of the files."""
    from skerry.errors import SchemaMismatchError
    from skerry.schema.registry import Registry

    registry = Registry()
    for origin, classes in (("the files", types), ("the node", known)):
        for cls in classes.values():
            with suppress(SchemaMismatchError):
                # What is refused is kept, and asked for below.
                registry.add(cls.descriptor, origin=origin)
    return {conflict.known.name: conflict.difference() for conflict in registry.conflicts}


def _kind(cls: Any) -> str:
    return "enum" if not hasattr(cls.descriptor, "flags") else "struct"


def _flags(cls: Any) -> list[str]:
    if _kind(cls) == "enum":
        return []
    return [
        name if value else f"{name}=false" for name, value in cls.descriptor.flags.not_default()
    ]


def _cells(row: Mapping[str, Any], columns: tuple[str, ...]) -> list[str]:
    return [_cell(row[column]) for column in columns]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return ", ".join(value) if isinstance(value, list) else str(value)
