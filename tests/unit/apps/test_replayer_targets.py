"""What no target takes."""

from __future__ import annotations

from typing import Any

import skerry
from skerry.apps.replayer_targets import sent_ns_of, unplayable
from skerry.codec.envelope import CREATE, Update
from skerry.objects.base import codec_of
from skerry.objects.internal import internal_class
from skerry.schema.fingerprint import fingerprint

TYPES = skerry.define_types(
    """
    enum Kind { 1: tug }
    struct Vessel { 1: [key] uint32 mmsi; 2: string name; 3: uint32 speed; 4: Kind kind; }
    """
)
SENT_NS = 1_700_000_000_250_000_000


def update(obj: Any, operation: int = CREATE, **changes: Any) -> Update:
    codec = codec_of(type(obj))
    payload = obj.encode()
    facts = {
        "type_name": obj.descriptor.name,
        "subject": f"/Vessel/{getattr(obj, 'mmsi', '')}",
        "operation": operation,
        "present": int(obj.attributes),
        "key": codec.key_of(codec.split(payload)),
        "payload": payload,
        "fingerprint": fingerprint(obj.descriptor),
        "time_ns": SENT_NS + 5,
        "sent_ns": SENT_NS,
    }
    return Update(**{**facts, **changes})


def vessel(mmsi: int, **fields: Any) -> Any:
    return TYPES.Vessel(mmsi=mmsi, **fields)


KNOWN = TYPES.Vessel.descriptor


def test_objects_and_bytes_can_be_played() -> None:
    assert unplayable(update(vessel(1)), KNOWN) is None
    content = internal_class("SkerryBytes")(data=b"x")
    assert unplayable(update(content, subject="/x"), content.descriptor) is None


def test_what_only_a_node_says_and_what_nobody_described_cannot() -> None:
    client = internal_class("DotsClient")(id=1)
    assert unplayable(update(client), client.descriptor) == "only a node says this"
    described = update(vessel(1)).replace(type_name="StructDescriptorData")
    assert unplayable(described, None) == "only a node says this"
    assert unplayable(update(vessel(1)), None) == "its type is not described"


def test_where_nobody_told_when_it_was_sent_it_is_when_it_came() -> None:
    assert sent_ns_of(update(vessel(1))) == SENT_NS
    assert sent_ns_of(update(vessel(1), sent_ns=-1)) == SENT_NS + 5
