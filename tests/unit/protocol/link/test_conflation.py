"""Which samples a lagging receiver no longer needs."""

from __future__ import annotations

from skerry.protocol.link.conflation import Conflation
from skerry.protocol.link.message_packing import MessagePacking
from skerry.protocol.link.packets import Sample


def sample(seq: int, *keys: int | None) -> Sample:
    packing = MessagePacking(1000)
    for key in keys:
        packing.add(7, 0, b"data", key)
    data, found = packing.close()
    return Sample(seq, data, 1000, seq, found)


def test_a_sample_is_replaced_when_all_of_its_keys_are() -> None:
    waiting = Conflation()
    assert waiting.add(sample(1, 10, 11)) == []
    assert waiting.add(sample(2, 10)) == []
    assert waiting.add(sample(3, 11)) == [1]
    assert waiting.add(sample(4, 10, 11)) == [2, 3]


def test_a_sample_with_a_message_without_key_is_not_replaced() -> None:
    waiting = Conflation()
    waiting.add(sample(1, 10, None))
    assert waiting.add(sample(2, 10)) == []


def test_a_sample_that_was_sent_is_not_replaced() -> None:
    waiting = Conflation()
    first = sample(1, 10)
    waiting.add(first)
    waiting.sent(first)
    assert waiting.add(sample(2, 10)) == []


def test_the_same_key_twice_in_one_sample_does_not_replace_itself() -> None:
    waiting = Conflation()
    assert waiting.add(sample(1, 10, 10)) == []
    assert waiting.add(sample(2, 10)) == [1]
