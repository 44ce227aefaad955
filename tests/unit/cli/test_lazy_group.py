"""Groups that import a command only when it is called."""

from __future__ import annotations

import sys

import click
import pytest

from skerry.cli.lazy_group import LazyGroup


def group() -> LazyGroup:
    return LazyGroup("tools", package="skerry.cli", summaries={"version": "Print the version."})


def test_command_is_the_one_of_its_module() -> None:
    from skerry.cli.version import version

    context = click.Context(group())
    assert group().list_commands(context) == ["version"]
    assert group().get_command(context, "version") is version
    assert group().get_command(context, "sub") is None


def test_help_imports_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "skerry.cli.version", raising=False)
    text = group().get_help(click.Context(group()))
    assert "version  Print the version." in text
    assert "skerry.cli.version" not in sys.modules


def test_unknown_command_has_a_suggestion() -> None:
    context = click.Context(group())
    with pytest.raises(click.UsageError, match="unknown command 'verison', did you mean 'version'"):
        group().resolve_command(context, ["verison"])
