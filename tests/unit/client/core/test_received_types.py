"""Types as a space uses them."""

from __future__ import annotations

from skerry.client.core.received_types import BYTES_NAME, ReceivedType
from skerry.client.core.send_buffer import raw_payload
from skerry.objects.base import codec_of
from skerry.objects.internal import internal_class
from tests.unit.client.stage import Vessel


def test_received_type_has_the_codec_of_its_class() -> None:
    shape = ReceivedType(Vessel, codec_of(Vessel).plan, True)
    assert shape.decode(Vessel(mmsi=1).encode()) == Vessel(mmsi=1)
    assert shape.layout.decode(Vessel(mmsi=1).encode()) == Vessel(mmsi=1)
    assert (shape.name, shape.is_cached, shape.is_bytes) == ("Vessel", True, False)


def test_received_type_of_bytes_returns_the_bytes() -> None:
    cls = internal_class(BYTES_NAME)
    shape = ReceivedType(cls, codec_of(cls).plan, False)
    assert shape.is_bytes
    assert shape.bytes_of(raw_payload(b"abc")) == b"abc"
