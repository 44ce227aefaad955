"""Which types and tables a folder of tables has, by the last plan of the pipeline and the logs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from skerry.errors import PipelineError, SkerryError
from skerry.spark.lake.catalog import DIVIDED_BY
from skerry.spark.lake.data_files import Contents
from skerry.spark.lake.delta import Table
from skerry.spark.lake.schema import TypedSchema
from skerry.spark.lake.schema_json import schema_from_text
from skerry.spark.lake.store import TableStore

__all__ = ["OF_TYPES", "LakeLayout", "TableInfo", "TypeTables"]

OF_TYPES = (*(kind for kind in DIVIDED_BY if kind != "raw"), "rollups")
"""Kinds of tables of which each type has its own."""
_PLANS = "_skerry/plans"


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeTables:
    """What is known of the tables of one type."""

    table: str
    """Their name: that of the type, with `@2` and so on for definitions that do not fit."""
    schema: TypedSchema
    is_cached: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TableInfo:
    """How much a table holds, by its log."""

    name: str
    rows: int
    files: int
    byte_count: int


class LakeLayout:
    """A folder of tables, as it is when it is asked."""

    def __init__(self, store: TableStore) -> None:
        self.store = store

    def types(self) -> Mapping[str, TypeTables]:
        """The types that have tables, by the names of these; PipelineError if a plan is damaged.

        The pipeline writes a plan before it commits, so the last one knows all columns.
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
        """Names of folders that may be tables; whether they are, their logs tell."""
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
        """What a table holds, or None if there is no such table."""
        return Table(self.store, name).contents()

    def infos(self) -> list[TableInfo]:
        """All tables with their sizes."""
        found = ((name, self.contents(name)) for name in self.folders())
        return [_info(name, contents) for name, contents in found if contents is not None]


def _info(name: str, contents: Contents) -> TableInfo:
    return TableInfo(
        name=name,
        rows=sum(file.rows for file in contents.files),
        files=len(contents.files),
        byte_count=sum(file.byte_count for file in contents.files),
    )


def _type_of(plain: Mapping[str, object]) -> TypeTables:
    return TypeTables(
        table=str(plain["table"]),
        schema=schema_from_text(str(plain["schema"])),
        is_cached=bool(plain["is_cached"]),
    )
