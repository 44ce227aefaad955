"""`skerry types`: check, format, show, compare and generate types; list those of a node."""

from __future__ import annotations

import click

from skerry.cli.types.check import check
from skerry.cli.types.diff import diff
from skerry.cli.types.format import format_files
from skerry.cli.types.generate import generate
from skerry.cli.types.list import list_types
from skerry.cli.types.show import show

__all__ = ["check", "diff", "format_files", "generate", "list_types", "show", "types"]


@click.group()
def types() -> None:
    """Work with type files, and with the types of a node.

    A file may be given as `-`, which is standard input. Imports are followed: `import Foo` is met
    by a type `Foo` of any file given, else by `Foo.dots` beside the importing file.
    """


for _command in (check, diff, format_files, generate, list_types, show):
    types.add_command(_command)
