"""Finds the type and the files that a query about an instant needs, including its snapshot.

Both query engines use this: `skerry.spark.tables`, which reads the files with Spark, and
`skerry.lake`, which reads them with Arrow. Spark is not imported here.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from skerry.errors import PipelineError
from skerry.spark.lake.data_files import Contents, DataFile
from skerry.spark.lake.plans import TypeState


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFiles:
    """The files of one table that may have states of an instant."""

    kind: str
    contents: Contents
    after_ns: int | None
    """Only states that began after this instant count; None for all."""


def states_around(
    table: str, at_ns: int, contents_of: Callable[[str], Contents | None]
) -> list[StateFiles]:
    """The files that may have states of a type at an instant.

    The last snapshot before the instant replaces all history before it; the statistics in the logs
    exclude more files. `contents_of` returns the contents of a table by name, None if there is no
    such table.
    """
    snapshot = _snapshot_before(contents_of(f"snapshots/{table}"), at_ns)
    edge_ns = None if snapshot is None else _edge_ns(snapshot.files[0])

    def may_match(file: DataFile) -> bool:
        if edge_ns is not None and file.high.get("valid_from_ns", at_ns) <= edge_ns:
            return False
        has_begun = file.low.get("valid_from_ns", at_ns) <= at_ns
        return bool(has_begun and file.high.get("valid_to_ns", at_ns + 1) > at_ns)

    states = []
    for kind in ("history", "latest"):
        contents = contents_of(f"{kind}/{table}")
        if contents is not None and (found := contents.only(may_match)).files:
            states.append(StateFiles(kind=kind, contents=found, after_ns=edge_ns))
    if snapshot is not None:
        states.append(StateFiles(kind="snapshots", contents=snapshot, after_ns=None))
    return states


def known_type(types: Mapping[str, TypeState], name: str) -> TypeState:
    """The type of this name, by its table or by its own; PipelineError if there is none."""
    if name in types:
        return types[name]
    # If the name of a type cannot be a folder name, its tables have another name.
    for state in types.values():
        if state.schema.type_name == name:
            return state
    raise unknown_name(name, types)


def cached_type(types: Mapping[str, TypeState], name: str) -> TypeState:
    """As `known_type`; PipelineError also for a message type, which has no objects."""
    state = known_type(types, name)
    if not state.is_cached:
        error = PipelineError(f"{name} is a message type and has no objects")
        error.hint = f"query its messages with `between`; the table is updates/{name}"
        raise error
    return state


def unknown_name(name: str, names: Iterable[str]) -> PipelineError:
    """The error for a table or a type that does not exist, with the known names."""
    known = list(names)
    error = PipelineError(
        f"there is no table {name}" if "/" in name else f"there is no type {name} in the tables"
    )
    near = difflib.get_close_matches(name, known, 1)
    if near:
        error.hint = f"did you mean {near[0]}?"
    elif known:
        error.hint = f"known names: {', '.join(known[:20])}"
    else:
        error.hint = "there are no tables yet; create them with `skerry pipeline run`"
    return error


def _snapshot_before(contents: Contents | None, at_ns: int) -> Contents | None:
    """The last snapshot that is not after an instant and is valid for it."""
    if contents is None:
        return None
    reaching = contents.only(
        lambda file: _edge_ns(file) <= at_ns < int(file.parts["until_ns"] or 0)
    )
    if not reaching.files:
        return None
    last_ns = max(map(_edge_ns, reaching.files))
    return reaching.only(lambda file: _edge_ns(file) == last_ns)


def _edge_ns(file: DataFile) -> int:
    """The instant of the snapshot that a file belongs to."""
    return int(file.parts["edge_ns"] or 0)
