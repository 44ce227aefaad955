"""Writes docs/reference/cli.md from the help of the commands. A tidy test compares the two."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from skerry.cli.main import skerry

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "cli.md"

INTRODUCTION = """\
# Commands

`skerry <thing> <verb>`. Data is written to stdout, messages to stderr. Reading commands have
`--json`, which prints one JSON object per line. Progress bars appear on a terminal only.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | failed |
| 2 | the command line was wrong |
| 3 | no node could be reached, or it stopped answering |
| 4 | the system has excluded the node, which does not join it again |

Common options have short forms: `-n` for `--node`, `-t` for `--types`, `-j` for `--json`, `-c` for
`--count` and `-f` for `--format`.

An error is one line, usually with a hint; `skerry --debug ...` adds a traceback. The first SIGINT
or SIGTERM ends a long-running command in order, the second one at once.

To complete commands, options and type names in a shell, see `skerry completion`.
"""


def reference() -> str:
    """The whole page."""
    parts = [INTRODUCTION, section(skerry, "skerry", title="General options")]
    parts += [
        section(command, path, title=f"`{path}`") for command, path in leaves(skerry, "skerry")
    ]
    return "\n".join(parts)


def leaves(command: click.Command, path: str) -> Iterator[tuple[click.Command, str]]:
    """All commands that can be invoked, with their paths."""
    if not isinstance(command, click.Group):
        yield command, path
        return
    if command.invoke_without_command:
        yield command, path
    context = click.Context(command)
    for name in sorted(command.list_commands(context)):
        below = command.get_command(context, name)
        assert below is not None
        yield from leaves(below, f"{path} {name}")


def section(command: click.Command, path: str, *, title: str) -> str:
    # A fixed width, so that the page does not depend on the terminal.
    settings = skerry.context_settings
    context = click.Context(command, info_name=path, terminal_width=90, **settings)
    return f"## {title}\n\n```text\n{command.get_help(context)}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
    print(f"wrote {PAGE.name}", file=sys.stderr)
