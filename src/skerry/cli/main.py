"""Entry point of the program `skerry`.

It imports almost nothing, so that Ctrl-C during the import of the other modules ends the program
without a traceback.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skerry.cli.program import COMMANDS, skerry

__all__ = ["COMMANDS", "main", "skerry"]


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        from skerry.cli.program import run

        return run(arguments)
    except KeyboardInterrupt:
        # No command is running yet, so there is nothing to report.
        return 1


if not TYPE_CHECKING:  # A type checker would accept any misspelled name otherwise.

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from skerry.cli import program

        return getattr(program, name)
