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


def test_a_group_is_reached_by_the_local_network_unless_told_otherwise() -> None:
    assert given() == {"interface": "", "ttl": 1, "dialect": "java", "key_file": ""}
    told = given("--interface", "lo", "--ttl", "7", "--dialect", "pycast", "--key-file", "keys")
    assert told == {"interface": "lo", "ttl": 7, "dialect": "pycast", "key_file": "keys"}


@pytest.mark.parametrize("wrong", [("--ttl", "256"), ("--ttl", "-1"), ("--dialect", "latin")])
def test_what_no_group_has_is_refused(wrong: tuple[str, str]) -> None:
    with pytest.raises(click.BadParameter):
        given(*wrong)
