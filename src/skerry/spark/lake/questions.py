"""Which type and which files a question about an instant needs; no Spark is imported here.

Both engines use this: `skerry.spark.tables`, which reads the files with Spark, and `skerry.lake`,
which reads them with Arrow.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from skerry.errors import PipelineError
from skerry.spark.lake.delta import Contents, DataFile
from skerry.spark.lake.schema import TypedSchema

__all__ = ["StatePlace", "TableType", "cached_type", "known_type", "states_around", "unknown_name"]


class TableType(Protocol):
    """What is known of the tables of one type."""

    @property
    def schema(self) -> TypedSchema: ...

    @property
    def is_cached(self) -> bool: ...


Known = TypeVar("Known", bound=TableType)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePlace:
    """Files of one kind of table that may hold states of an instant."""

    kind: str
    contents: Contents
    after_ns: int | None
    """Only states that began after this instant count; None: all."""


def states_around(
    table: str, at_ns: int, contents_of: Callable[[str], Contents | None]
) -> list[StatePlace]:
    """The files that can hold the states of a type at an instant, as few as the logs allow.

    `contents_of` gives the contents of a table by its name, or None if there is no such table.
    """
    snapshot = _snapshot_before(contents_of(f"snapshots/{table}"), at_ns)
    edge_ns = None if snapshot is None else _edge_ns(snapshot.files[0])

    def may_hold(file: DataFile) -> bool:
        if edge_ns is not None and file.high.get("valid_from_ns", at_ns) <= edge_ns:
            return False
        has_begun = file.low.get("valid_from_ns", at_ns) <= at_ns
        return bool(has_begun and file.high.get("valid_to_ns", at_ns + 1) > at_ns)

    places = []
    for kind in ("history", "latest"):
        contents = contents_of(f"{kind}/{table}")
        if contents is not None and (found := contents.only(may_hold)).files:
            places.append(StatePlace(kind=kind, contents=found, after_ns=edge_ns))
    if snapshot is not None:
        places.append(StatePlace(kind="snapshots", contents=snapshot, after_ns=None))
    return places


def known_type(types: Mapping[str, Known], name: str) -> Known:
    """The type of this name, by its table or by its own; PipelineError if there is none."""
    if name in types:
        return types[name]
    # Tables of a type whose name is not one of a folder have another name.
    for state in types.values():
        if state.schema.type_name == name:
            return state
    raise unknown_name(name, types)


def cached_type(types: Mapping[str, Known], name: str) -> Known:
    """The same; PipelineError for a message type, which has no objects."""
    state = known_type(types, name)
    if not state.is_cached:
        error = PipelineError(f"{name} is a message type: there are no objects of it")
        error.hint = f"`between` tells what was said; the table is updates/{name}"
        raise error
    return state


def unknown_name(name: str, names: Iterable[str]) -> PipelineError:
    """The error for a table or a type that is not there, with the names that are."""
    known = list(names)
    error = PipelineError(
        f"there is no table {name}" if "/" in name else f"nothing is known of {name}"
    )
    near = difflib.get_close_matches(name, known, 1)
    if near:
        error.hint = f"did you mean {near[0]}?"
    elif known:
        error.hint = f"there are {', '.join(known[:20])}"
    else:
        error.hint = "the pipeline has made no tables here yet"
    return error


def _snapshot_before(contents: Contents | None, at_ns: int) -> Contents | None:
    """The last snapshot that is not after an instant, and reaches up to it."""
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
    """The instant that a file of a snapshot is of."""
    return int(file.parts["edge_ns"] or 0)
