"""`skerry record` as a group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skerry.cli.record import record

Run = Callable[..., Any]


def test_group_lists_its_commands(run: Run) -> None:
    assert sorted(record.commands) == [
        "copy",
        "cut",
        "export",
        "import",
        "info",
        "merge",
        "verify",
    ]
    out = run("record", "--help").out
    for name in record.commands:
        assert name in out
