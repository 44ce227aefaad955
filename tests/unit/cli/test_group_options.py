"""Options of commands that use a multicast group."""

from __future__ import annotations

from typing import Any

import click
import pytest

from skerry.cli.group_options import group_key_option, group_reach_options


def given(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = {}

    @click.command()
    @group_reach_options
    @group_key_option
    def command(**values: Any) -> None:
        found.update(values)

    command.main(list(arguments), standalone_mode=False)
    return found


def test_a_group_is_on_the_local_network_by_default() -> None:
    assert given() == {"interface": "", "ttl": 1, "dialect": "java", "key_file": ""}
    messages = given("--interface", "lo", "--ttl", "7", "--dialect", "pycast", "--key-file", "keys")
    assert messages == {"interface": "lo", "ttl": 7, "dialect": "pycast", "key_file": "keys"}


@pytest.mark.parametrize("wrong", [("--ttl", "256"), ("--ttl", "-1"), ("--dialect", "latin")])
def test_invalid_group_options_are_rejected(wrong: tuple[str, str]) -> None:
    with pytest.raises(click.BadParameter):
        given(*wrong)
