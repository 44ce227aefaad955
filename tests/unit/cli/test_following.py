"""What a command subscribes to, and warnings about it."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import click
import pytest

import skerry
from skerry.cli.following import (
    check_filter_use,
    followed_type,
    hides,
    is_subject,
    report_states,
    without_repetition,
)
from skerry.cli.output import Output
from skerry.cli.parameters import WrongValue


def test_a_subject_begins_with_a_slash() -> None:
    assert is_subject("/prices/*", Output())
    assert not is_subject("ns::Vessel", Output())
    with pytest.raises(WrongValue, match=r"'prices\.>' is not a type name") as raised:
        is_subject("prices.>", Output())
    assert raised.value.hint == "did you mean '/prices/...'?"
    with pytest.raises(click.UsageError, match="need a type"):
        check_filter_use("/x", "a = 1", None)
    check_filter_use("Vessel", "a = 1", "b")


def test_wildcards_hide_status_objects() -> None:
    status: Any = SimpleNamespace(type_name="DotsClient")
    assert [hides(text, status) for text in ("/...", "/*/1", "/DotsClient/*", "DotsClient")] == [
        True,
        True,
        False,
        False,
    ]
    assert not hides("/...", SimpleNamespace(type_name="SkerryBytes"))  # type: ignore[arg-type]


def test_a_type_that_the_node_does_not_know_is_its_name(
    live_node: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    vessel = skerry.define_types("struct Vessel { 1: [key] int32 id; }").Vessel
    with skerry.connect(live_node.place) as space:
        assert report_states(space, Output()) == []
        space.publish(vessel(id=1))
        space.flush()
        assert followed_type(space, "Vessel", {}, Output()) is space.types["Vessel"]
        assert followed_type(space, "Vesel", {}, Output()) == "Vesel"
        assert "did you mean Vessel?" in capsys.readouterr().err
        with pytest.raises(skerry.SkerryError, match="does not know a struct Vesel"):
            followed_type(space, "Vesel", {}, Output(), needs_type=True)


def test_the_warning_of_the_library_is_not_repeated() -> None:
    with without_repetition():
        warnings.warn("the level # is no wild card", stacklevel=1)
