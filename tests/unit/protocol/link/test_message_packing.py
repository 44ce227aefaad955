"""Messages to samples."""

from __future__ import annotations

from skerry.protocol.link.message_packing import MessagePacking
from skerry.protocol.link.packets import Sample
from skerry.protocol.rtps.samples import RECORD_BYTES, SAMPLE_BYTES, read_records

FRAGMENT_BYTES = 200


def test_messages_share_a_sample_while_they_fit() -> None:
    packing = MessagePacking(FRAGMENT_BYTES)
    messages: list[tuple[int, int, bytes]] = []
    while packing.fits(10):
        messages.append((7, len(messages), bytes(10)))
        packing.add(*messages[-1], None)
    data, keys = packing.close()
    assert read_records(data) == messages
    assert len(messages) == (FRAGMENT_BYTES - SAMPLE_BYTES) // (RECORD_BYTES + 10)
    assert len(data) <= FRAGMENT_BYTES
    assert keys is None
    assert not packing


def test_a_message_of_any_size_fits_an_empty_sample() -> None:
    packing = MessagePacking(FRAGMENT_BYTES)
    assert packing.fits(10_000)
    packing.add(7, 0, bytes(10_000), None)
    assert not packing.fits(0)
    data, _ = packing.close()
    assert read_records(data) == [(7, 0, bytes(10_000))]


def test_a_sample_has_keys_if_each_of_its_messages_has() -> None:
    packing = MessagePacking(FRAGMENT_BYTES)
    packing.add(7, 0, b"a", 1)
    packing.add(8, 0, b"b", 2)
    data, keys = packing.close()
    assert Sample(1, data, FRAGMENT_BYTES, 0, keys).record_keys() == [(7, 1), (8, 2)]
    packing.add(7, 0, b"a", 1)
    packing.add(7, 0, b"b", None)
    packing.add(7, 0, b"c", 3)
    assert packing.close()[1] is None
