"""`skerry types`: check, format, show, compare and generate types; list those of a node.

sources      type files of a command: reading them, and printing their problems
files        `types check`, `types format`, `types diff`: problems, layout and changes of type files
show         `types show`: print the types of type files
generate     `types generate`: write a Python module of classes
list         `types list`: list the types of a node
"""

from __future__ import annotations

import click

from skerry.cli.types.files import check, diff, format_files
from skerry.cli.types.generate import generate
from skerry.cli.types.list import list_types
from skerry.cli.types.show import show

__all__ = ["check", "diff", "format_files", "generate", "list_types", "show", "types"]


@click.group()
def types() -> None:
    """Work with type files, and with the types of a node.

    The file `-` is standard input. `import Foo` refers to a type `Foo` of any given file, otherwise
    to the file `Foo.dots` in the folder of the importing file.
    """


for _command in (check, diff, format_files, generate, list_types, show):
    types.add_command(_command)
