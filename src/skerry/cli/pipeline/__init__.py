"""`skerry pipeline`: tables of what was recorded, and questions about any time."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click

__all__ = ["pipeline"]

_COMMANDS: Final = (
    "asof",
    "between",
    "compact",
    "diff",
    "follow",
    "report",
    "retain",
    "run",
    "tables",
    "vacuum",
)


class _LazyCommands(click.Group):
    """The commands, each imported when it is called: most need little of what others need."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"{__name__}.{cmd_name}"), cmd_name)
        return command


@click.group(cls=_LazyCommands)
def pipeline() -> None:
    """Turn recordings into tables with Spark, and ask them about any time.

    `run` takes all that is recorded and ends; `follow` goes on as the recording grows. Both may be
    stopped and started at any moment: nothing is lost, and nothing is counted twice. The tables
    are Parquet with a Delta log, so DuckDB, polars and others read them as well.

    Spark needs the extra (`pip install 'skerry[spark]'`) and a few seconds to start. asof, between,
    diff and tables do without it (`pip install 'skerry[lake]'`).
    """
