"""Updates that no target accepts."""

from __future__ import annotations

from skerry.apps.replayer.targets import send_time_ns, unplayable
from skerry.objects.internal import internal_class
from tests.unit.apps.playing import SENT_NS, TYPES, update, vessel

KNOWN = TYPES.Vessel.descriptor


def test_objects_and_bytes_can_be_played() -> None:
    assert unplayable(update(vessel(1)), KNOWN) is None
    content = internal_class("SkerryBytes")(data=b"x")
    assert unplayable(update(content, subject="/x"), content.descriptor) is None


def test_status_objects_and_unknown_types_are_unplayable() -> None:
    client = internal_class("DotsClient")(id=1)
    assert unplayable(update(client), client.descriptor) == "only a node publishes this type"
    described = update(vessel(1)).replace(type_name="StructDescriptorData")
    assert unplayable(described, None) == "only a node publishes this type"
    assert unplayable(update(vessel(1)), None) == "its type is not described"


def test_time_of_the_row_replaces_a_missing_send_time() -> None:
    assert send_time_ns(update(vessel(1))) == SENT_NS
    assert send_time_ns(update(vessel(1), sent_ns=-1)) == SENT_NS + 5
