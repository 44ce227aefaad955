"""Groups that import a command only when it is called, so that help is shown quickly."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from skerry.suggestions import nearest


class LazyGroup(click.Group):
    """A group whose commands are modules of `package`; module and command have the same name.

    `summaries` are the lines of the commands in the help of the group. `synonyms` are names that
    commands have in other systems.
    """

    def __init__(
        self,
        *arguments: Any,
        package: str,
        summaries: Mapping[str, str],
        synonyms: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self._synonyms = synonyms or {}
        self._package = package
        self._summaries = summaries

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._summaries:
            return None
        command: click.Command = getattr(import_module(f"{self._package}.{cmd_name}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self._summaries:
            guess = self._synonyms.get(args[0]) or nearest(args[0], self._summaries)
            advice = f", did you mean {guess!r}?" if guess else ""
            raise click.UsageError(f"unknown command {args[0]!r}{advice}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(self._summaries.items()))
