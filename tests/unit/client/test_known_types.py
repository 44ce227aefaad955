"""The types of a space, and which class is used for them."""

from __future__ import annotations

import pytest

import skerry
from skerry.client.known_types import KnownTypes
from skerry.errors import LocalProtocolError, SchemaMismatchError
from skerry.objects.descriptors import describe
from tests.unit.client.stage import Part, Vessel


def test_class_of_the_program_goes_before_one_made_here() -> None:
    types = KnownTypes()
    types.learn_description(describe(Vessel.descriptor))
    assert types.class_named("Vessel").descriptor == Vessel.descriptor  # type: ignore[union-attr]

    class Mine(Vessel):  # type: ignore[misc]
        """Ours."""

    own = KnownTypes()
    own.learn(Mine)
    own.learn_description(describe(Vessel.descriptor))
    assert own.class_named("Vessel") is Mine
    assert own.classes() == {"Vessel": Mine}


def test_unknown_and_internal_types_are_not_listed() -> None:
    types = KnownTypes()
    assert types.classes() == {}
    assert types.class_named("Vessel") is None
    assert types.class_named("DotsClient") is not None
    assert types.main_shape("Vessel") is None
    assert types.main_shape("DotsMemberEvent") is None, "an enum has no objects of its own"


def test_other_definition_from_the_node_is_kept_to_be_shown() -> None:
    types = KnownTypes()
    types.learn(Vessel)
    other = skerry.define_types("struct Vessel { 1: [key] string mmsi; }").Vessel
    found, is_new = types.learn_description(describe(other.descriptor))
    assert (found, is_new) == (other.descriptor, False)
    assert types.by_name["Vessel"] == Vessel.descriptor
    assert types.has_conflict("Vessel")
    assert not types.has_conflict("Only")
    assert len(types.conflicts) == 1
    with pytest.raises(SchemaMismatchError):
        types.learn(other)


def test_what_is_no_class_or_not_for_publishing_is_refused() -> None:
    types = KnownTypes()
    with pytest.raises(LocalProtocolError, match="no class of objects"):
        types.learn(int)
    with pytest.raises(LocalProtocolError, match="no class of objects"):
        types.learn(skerry.Struct)
    with pytest.raises(LocalProtocolError, match="only for use inside"):
        types.send_plan(Part)


def test_shapes_and_plans_are_made_once() -> None:
    types = KnownTypes()
    assert types.shape(Vessel) is types.shape(Vessel)
    assert types.send_plan(Vessel) is types.send_plan(Vessel)
