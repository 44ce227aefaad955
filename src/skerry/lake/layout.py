"""The types and tables of a lake, by the last plan of the pipeline and the logs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from skerry.errors import PipelineError, SkerryError
from skerry.spark.lake.catalog import DIVIDED_BY
from skerry.spark.lake.data_files import Contents, TableSize
from skerry.spark.lake.delta import Table
from skerry.spark.lake.schema import TypedSchema
from skerry.spark.lake.schema_json import schema_from_text
from skerry.spark.lake.store import TableStore

OF_TYPES = (*(kind for kind in DIVIDED_BY if kind != "raw"), "rollups")
"""Kinds of tables that exist per type."""
_PLANS = "_skerry/plans"


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeTables:
    table: str
    """Their name: that of the type, with `@2` and so on for incompatible definitions."""
    schema: TypedSchema
    is_cached: bool


class LakeLayout:
    """The types and tables of a lake; each call reads the current state."""

    def __init__(self, store: TableStore) -> None:
        self.store = store

    def types(self) -> Mapping[str, TypeTables]:
        """The types by the names of their tables; PipelineError if the last plan is damaged.

        The pipeline writes a plan before it commits, so the last plan has all columns.
        """
        listed = self.store.listed(_PLANS)
        plans = [file.path for file in listed if file.path.endswith(".json")]
        for path in reversed(plans):
            try:
                text = self.store.read_text(path)
                if text is not None:
                    found = map(_type_of, json.loads(text)["types"])
                    return {state.table: state for state in found}
            except (LookupError, SkerryError, TypeError, ValueError) as error:
                raise PipelineError(f"{self.store.root}/{path} is damaged") from error
        return {}

    def folders(self) -> list[str]:
        """Names of folders that may be tables; their logs are not read."""
        names: list[str] = []
        for name in self.store.folders(""):
            if name.startswith(("_", ".")):
                continue
            if name in OF_TYPES:
                names += [f"{name}/{inner}" for inner in self.store.folders(name)]
            else:
                names.append(name)
        return names

    def contents(self, name: str) -> Contents | None:
        """The files and columns of a table, or None if there is no such table."""
        return Table(self.store, name).contents()

    def sizes(self) -> list[TableSize]:
        """The sizes of all tables, sorted by name within each kind."""
        found = ((name, self.contents(name)) for name in self.folders())
        return [TableSize.of(name, contents) for name, contents in found if contents is not None]


def _type_of(values: Mapping[str, object]) -> TypeTables:
    return TypeTables(
        table=str(values["table"]),
        schema=schema_from_text(str(values["schema"])),
        is_cached=bool(values["is_cached"]),
    )
