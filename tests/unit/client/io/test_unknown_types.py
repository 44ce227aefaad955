"""Warnings about types that the node does not know."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import skerry

VESSEL = skerry.define_types("struct Vessel { 1: [key] uint32 mmsi; }").Vessel


def test_a_misspelled_type_name_is_logged_at_once(
    live_node: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with skerry.connect(live_node.place) as space, caplog.at_level(logging.WARNING):
        space.publish(VESSEL(mmsi=1))
        with space.subscribe("Vesel"), space.subscribe("Vessel"), space.subscribe("/x"):
            while not caplog.records:
                space.flush()
    assert len(caplog.records) == 1
    assert "the node does not know Vesel yet (did you mean Vessel?)" in caplog.text


def test_a_program_that_asked_for_the_type_is_not_warned(
    live_node: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with skerry.connect(live_node.place) as space:
        assert "Later" not in space.request_types("Later")
        with space.subscribe("Later"):
            space.flush()
            space.flush()
    assert not caplog.records
