"""`skerry types generate`: a Python module of typed classes, and its stub."""

from __future__ import annotations

import keyword
from collections.abc import Sequence
from pathlib import Path, PurePath

import click

from skerry.cli.output import Output, current_output
from skerry.cli.types.sources import files_argument, load_files
from skerry.errors import SchemaError

__all__ = ["generate"]


@click.command()
@files_argument
@click.option(
    "-o",
    "--output",
    "target",
    metavar="OUT.py",
    required=True,
    help="The module to write, with a stub OUT.pyi beside it; `-` prints the module.",
)
@click.option("--no-stub", is_flag=True, help="Write no stub.")
@click.option("--check", is_flag=True, help="Write nothing; say whether the files are up to date.")
@click.pass_context
def generate(
    context: click.Context, *, files: Sequence[str], target: str, no_stub: bool, check: bool
) -> None:
    """Write a Python module with the classes of type files.

    The module needs skerry, but no type file when it runs. Its classes are those that
    `skerry.load_types` would give, and other processes can import them. The stub tells type
    checkers and editors the precise types.

    \b
    Examples:
      skerry types generate fleet.dots -o fleet_types.py
      skerry types generate fleet.dots -o fleet_types.py --check
      skerry types generate fleet.dots -o -

    Exit code 0: done; 1: the types have errors, or --check found an old file.
    """
    from skerry.objects.generate import generate_module, generate_stub

    module = None if target == "-" else _module_path(target)
    if module is None and check:
        raise click.UsageError("--check compares with files, and `-` is none")
    types = load_files(files).types
    if not types:
        raise SchemaError(f"there are no types in {', '.join(files)}")
    source = ", ".join("standard input" if file == "-" else PurePath(file).name for file in files)
    text = generate_module(types, source=source)
    if module is None:
        click.echo(text, nl=False)
        return
    contents = {module: text.encode()}
    if not no_stub:
        contents[module.with_suffix(".pyi")] = generate_stub(types, source=source).encode()
    if check:
        context.exit(_compare(current_output(), contents))
    _write(current_output(), contents)


def _module_path(target: str) -> Path:
    path = Path(target)
    if path.suffix != ".py":
        raise click.UsageError(f"{target} is no name of a Python module: it ends with .py")
    if not path.stem.isidentifier() or keyword.iskeyword(path.stem):
        raise click.UsageError(
            f"no program could import {target}: {path.stem!r} is no name in Python"
        )
    return path


def _compare(output: Output, contents: dict[Path, bytes]) -> int:
    is_old = False
    for path, content in contents.items():
        try:
            state = "up to date" if path.read_bytes() == content else "out of date"
        except FileNotFoundError:
            state = "missing"
        output.note(f"{path} is {state}")
        is_old |= state != "up to date"
    if is_old:
        output.error("generate the files again", hint="run this command without --check")
    return 1 if is_old else 0


def _write(output: Output, contents: dict[Path, bytes]) -> None:
    from skerry.runtime.whole_files import replace_files

    replace_files(contents)
    for path in contents:
        output.note(f"wrote {path}")
