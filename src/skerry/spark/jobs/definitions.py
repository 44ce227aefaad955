"""Assigns each definition of a type to a table.

Compatible definitions of a type share its tables: columns follow tags. An incompatible one (another
key, another kind under the same tag) gets separate tables, named `T@2` and so on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from string import ascii_letters, digits
from typing import Final

from skerry.errors import PipelineError
from skerry.ids import hash64
from skerry.recording.columns import DESCRIPTOR_TYPES
from skerry.recording.index import Segment
from skerry.runtime.recordings.reader import read_types
from skerry.schema.model import StructType
from skerry.spark.lake.plans import TypeState
from skerry.spark.lake.schema import typed_schema

_SAFE_CHARS: Final = frozenset(ascii_letters + digits + "_-")
_FOLDER_CHARS_MAX: Final = 120
"""A file system allows 255 bytes; longer names are cut and end with a hash."""

Definition = tuple[str, int]
"""The name of a type and the fingerprint of one of its definitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeContent:
    """The definitions of the rows in some segments."""

    states: Mapping[str, TypeState]
    """By table, the states of all known types."""
    used: Mapping[str, tuple[int, ...]]
    """By table, the fingerprints of the rows in the segments."""
    notices: tuple[str, ...]


def content_of_segments(segments: Iterable[Segment], known: Mapping[str, TypeState]) -> TypeContent:
    """The definitions in segments; only segments with new definitions are opened."""
    states = dict(known)
    used: dict[str, list[int]] = {}
    notices: list[str] = []
    for segment in segments:
        described: dict[int, StructType] | None = None
        for name, number in _definitions(segment):
            table = _table_of(states, name, number)
            if table is None:
                described = read_types(segment) if described is None else described
                struct = described.get(number)
                if struct is None or struct.name != name:
                    continue  # Its rows belong to `raw`.
                state, notice = with_definition(states, struct)
                states[state.table] = state
                notices += notice
                table = state.table
            used.setdefault(table, []).append(number)
    return TypeContent(
        states=states,
        used={table: tuple(dict.fromkeys(numbers)) for table, numbers in used.items()},
        notices=tuple(notices),
    )


def with_definition(
    states: Mapping[str, TypeState], struct: StructType
) -> tuple[TypeState, list[str]]:
    """The state of the table for a new definition, and notices about it."""
    own = [state for state in states.values() if state.schema.type_name == struct.name]
    reasons: list[str] = []
    for state in own:
        try:
            schema = state.schema.extended([struct])
        except PipelineError as misfit:
            reasons.append(str(misfit))
            continue
        is_cached = state.is_cached or struct.flags.cached
        return replace(state, schema=schema, is_cached=is_cached), []
    name = _folder_name(struct.name)
    table = name if not own else f"{name}@{len(own) + 1}"
    state = TypeState(table=table, schema=typed_schema([struct]), is_cached=struct.flags.cached)
    notices = [f"{table} is a separate table: {reasons[-1]}"] if reasons else []
    return state, notices


def _folder_name(type_name: str) -> str:
    """The name of a type as a folder name; type names are untrusted."""
    # Escaped with tildes: the Delta library decodes percent escapes as those of a URL. Spark
    # ignores folders that begin with an underscore or a dot.
    first, rest = type_name[:1], type_name[1:]
    name = _escaped(first, _SAFE_CHARS - {"_"}) + _escaped(rest, _SAFE_CHARS)
    if len(name) > _FOLDER_CHARS_MAX:
        number = hash64(type_name) & 0xFFFF_FFFF_FFFF_FFFF
        name = f"{name[: _FOLDER_CHARS_MAX - 17]}~{number:016x}"
    return name


def _escaped(text: str, safe: frozenset[str]) -> str:
    return "".join(
        char if char in safe else "".join(f"~{byte:02x}" for byte in char.encode()) for char in text
    )


def _definitions(segment: Segment) -> list[Definition]:
    names = (name for name in segment.types if name and name not in DESCRIPTOR_TYPES)
    return [(name, number) for name in names for number in segment.fingerprints.get(name, ())]


def _table_of(states: Mapping[str, TypeState], name: str, number: int) -> str | None:
    for state in states.values():
        if state.schema.type_name == name and number in state.schema.fingerprints:
            return state.table
    return None
