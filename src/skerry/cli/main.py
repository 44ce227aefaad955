"""Where the program `skerry` begins: here so little is imported that an interruption, which may
come while the rest is, ends it without a traceback.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skerry.cli.program import COMMANDS, skerry

__all__ = ["COMMANDS", "main", "skerry"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line and returns its exit code."""
    try:
        from skerry.cli.program import run

        return run(arguments)
    except KeyboardInterrupt:
        # Outside of any command there is nothing to tell that whoever interrupts does not know.
        return 1


if not TYPE_CHECKING:  # or any misspelled name would pass a type checker

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from skerry.cli import program

        return getattr(program, name)
