"""Patterns: fields by name and position, and enums whose members are all named."""

from __future__ import annotations

from typing import assert_never, assert_type

from tests.typing.fleet import Place, Purpose, Vessel


def positions(vessel: Vessel) -> float | None:
    match vessel:
        case Vessel(mmsi, name, place=Place(lat, lon)):
            assert_type(mmsi, int)
            assert_type(name, str | None)
            assert_type(lat, float | None)
            return lon
        case Vessel(purpose=Purpose.tanker):
            return 0.0
        case _:
            return None


def every_member(purpose: Purpose) -> str:
    match purpose:
        case Purpose.cargo:
            return "boxes"
        case Purpose.tanker:
            return "liquids"
        case Purpose.class_:
            return "school"
        case _:
            assert_never(purpose)
