"""The options that choose entries of a Goby log."""

from __future__ import annotations

import re

import click
import pytest

from skerry.cli.portal.log.options import EntryChoice, Expression, entry_options, report_damage
from skerry.recording.goby.entries import DESCRIPTOR_GROUP, DESCRIPTOR_TYPE, GobyLogEntry

HOLD = "goby::zeromq::_internal_manager_request"


def entry(group: str, type_name: str = "CSTR") -> GobyLogEntry:
    return GobyLogEntry(scheme=0, group=group, type_name=type_name, time_us=0, data=b"")


ENTRIES = [entry("nav"), entry("navy"), entry(HOLD), entry(DESCRIPTOR_GROUP, DESCRIPTOR_TYPE)]


def chosen(choice: EntryChoice) -> list[str]:
    return [found.group for found in choice.of(iter(ENTRIES))]


def test_descriptors_and_the_hold_are_left_out() -> None:
    assert chosen(EntryChoice()) == ["nav", "navy"]
    assert chosen(EntryChoice(has_internal=True)) == ["nav", "navy", HOLD]


def test_whole_names_match() -> None:
    assert chosen(EntryChoice(groups=re.compile("nav"))) == ["nav"]
    assert chosen(EntryChoice(types=re.compile("C.*"))) == ["nav", "navy"]
    assert chosen(EntryChoice(types=re.compile("C"))) == []


def test_an_invalid_expression_is_a_usage_error() -> None:
    assert Expression().convert("a.*", None, None).fullmatch("ab")
    with pytest.raises(click.BadParameter, match="not a regular expression"):
        Expression().convert("(", None, None)


def test_options_become_a_choice() -> None:
    found: list[EntryChoice] = []

    @click.command()
    @entry_options
    def command(*, choice: EntryChoice) -> None:
        found.append(choice)

    command.main(["--group", "a", "--internal"], standalone_mode=False)
    assert found == [EntryChoice(groups=re.compile("a"), has_internal=True)]
    assert callable(report_damage)
