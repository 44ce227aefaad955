"""`skerry types list`: list the types of a node."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from time import time
from typing import TYPE_CHECKING, Any, Final

import click

from skerry.cli.node_options import NodeChoice, node_options, types_option
from skerry.cli.output import current_output, json_option

if TYPE_CHECKING:
    from skerry.client.api.sync import Space

_DEFINITIONS_S_MAX: Final = 10.0
"""Time to wait for the next definition of an incomplete list."""
_LEDGER_S_MAX: Final = 2.5
"""Time to wait for the counts, which a node publishes each second."""


@click.command(name="list")
@click.option("--quick", is_flag=True, help="Omit the counts, which take a second.")
@types_option
@node_options
@json_option
def list_types(*, quick: bool, types: Mapping[str, Any], choice: NodeChoice, as_json: bool) -> None:
    """List the types of a node with their objects, publishers, subscribers and definitions.

    Programs may use several definitions of a type. The node serves the union of the compatible ones
    and rejects the others. `definitions` is their number. For types with more than one definition,
    a second table lists the clients that use each.

    With --types, each type is compared with its definition in the files: `conflict` states the
    difference, and the exit code is 1 if there is one. For a foreign host, the counts and the
    definitions are empty.

    \b
    Examples:
      skerry types list
      skerry types list --json
      skerry types list --types fleet.dots
    """
    output = current_output()
    with choice.connect_or_fail("skerry-types") as space:
        rows = _rows(space, types, with_counts=not quick)
    if as_json:
        for row in rows:
            output.json_line(row)
    else:
        columns = ("name", "flags", "objects", "members", "publishers", "definitions", "conflict")
        output.table(columns, [[_cell(name, row[name]) for name in columns] for row in rows])
        details = [cells for row in rows for cells in _details(row)]
        if details:
            output.line("")
            output.table(("name", "definition", "clients", "state"), details)
    if any(row["conflict"] for row in rows):
        output.error("definitions of the node conflict with the type files")
        click.get_current_context().exit(1)


def _rows(space: Space, types: Mapping[str, Any], *, with_counts: bool) -> list[dict[str, Any]]:
    from skerry.apps.top import NodeWatch

    known = space.request_types()
    definitions = _definitions(space)
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
                "definitions": definitions.get(name, []) if definitions is not None else None,
                "conflict": conflicts.get(name),
            }
        )
    return rows


def _definitions(space: Space) -> dict[str, list[dict[str, Any]]] | None:
    """The definitions of each type, oldest first; None if the host does not list them."""
    found: dict[str, list[dict[str, Any]]] = {}
    with space.subscribe("SkerryDefinition") as messages:
        # A node that lists definitions sends the first one before it answers the flush.
        space.flush()
        for event in iter(lambda: messages.get(_DEFINITIONS_S_MAX if found else 0.0), None):
            message = event.object
            if message.typeName is None:
                return found
            found.setdefault(message.typeName, []).append(_definition(message))
    return None


def _definition(message: Any) -> dict[str, Any]:
    named = zip(message.clientNames, message.clients, strict=True)
    return {
        "fingerprint": f"{message.fingerprint & 0xFFFFFFFFFFFFFFFF:016x}",
        "served": message.isServed,
        "text": message.text,
        "clients": [f"{name} ({number})" for name, number in named],
        "client_count": message.clientCount,
        "conflict": message.conflict,
    }


def _details(row: Mapping[str, Any]) -> list[list[str]]:
    """Table rows for the definitions of a type with more than one."""
    definitions = row["definitions"] or []
    lines = []
    for definition in definitions if len(definitions) > 1 else ():
        more = definition["client_count"] - len(definition["clients"])
        clients = [*definition["clients"], *([f"{more} more"] if more else [])]
        reason = definition["conflict"] or "only used to read by"
        state = "served" if definition["served"] else f"not served: {reason}"
        fields = _only_fields(definition["text"], [other["text"] for other in definitions])
        lines.append([row["name"], fields, ", ".join(clients) or "objects", state])
    return lines


def _only_fields(text: str, texts: list[str]) -> str:
    """The lines of a definition that some other definition does not have."""
    mine = [line.strip() for line in text.splitlines()]
    shared = set(mine).intersection(*({line.strip() for line in t.splitlines()} for t in texts))
    return " ".join(line for line in mine if line not in shared) or "(fewer fields)"


def _conflicts(known: Mapping[str, Any], types: Mapping[str, Any]) -> dict[str, str]:
    """Differences between the definitions of the node and of the files, by type name."""
    from skerry.errors import SchemaMismatchError
    from skerry.schema.registry import Registry

    registry = Registry()
    for origin, classes in (("the files", types), ("the node", known)):
        for cls in classes.values():
            with suppress(SchemaMismatchError):
                # The registry keeps the conflict, which is read below.
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


def _cell(column: str, value: Any) -> str:
    if value is None:
        return ""
    if column == "definitions":
        return str(len(value))
    return ", ".join(value) if isinstance(value, list) else str(value)
