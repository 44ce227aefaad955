"""Fragments to samples."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skerry.protocol.link.assembly import Assembly
from skerry.protocol.rtps.number_sets import NUMBER_SET_BITS_MAX, NumberSet
from skerry.protocol.rtps.submessages import DataFragment


def fragments(sample: bytes, size: int = 4) -> list[DataFragment]:
    return [
        DataFragment(1, 7, 1 + index, size, len(sample), sample[start : start + size])
        for index, start in enumerate(range(0, len(sample), size))
    ]


@given(st.binary(min_size=1, max_size=100), st.randoms(use_true_random=False))
def test_fragments_in_any_order_and_number_make_the_sample(sample: bytes, rng) -> None:  # type: ignore[no-untyped-def]
    sent = [*fragments(sample), *fragments(sample)]
    rng.shuffle(sent)
    assembly = Assembly(sent[0])
    new_count = sum(assembly.add(one) is True for one in sent)
    assert new_count == len(assembly) == len(fragments(sample))
    assert assembly.is_whole
    assert assembly.sample() == sample
    assert assembly.received_bytes == len(sample)


def test_a_fragment_that_contradicts_the_others_is_reported() -> None:
    first, second = fragments(b"abcdefgh")
    assembly = Assembly(first)
    assert assembly.add(first) is True
    assert assembly.add(first) is False
    assert assembly.add(fragments(b"abcdefg")[1]) is None
    assert assembly.add(fragments(b"xbcdefgh")[0]) is None
    assert assembly.add(second) is True
    assert assembly.sample() == b"abcdefgh"


def test_the_missing_fragments_are_those_before_the_highest_or_the_end() -> None:
    parts = fragments(bytes(24))
    assembly = Assembly(parts[0])
    for index in (0, 3):
        assembly.add(parts[index])
    assert assembly.missing(is_to_end=False) == NumberSet(2, 5, (2, 3))
    assert assembly.missing(is_to_end=True) == NumberSet(2, 7, (2, 3, 5, 6))


def test_no_more_missing_fragments_are_named_than_a_set_can_have() -> None:
    parts = fragments(bytes(4 * (NUMBER_SET_BITS_MAX + 10)))
    assembly = Assembly(parts[0])
    assembly.add(parts[0])
    assembly.add(parts[-1])
    assert assembly.missing(is_to_end=True).bit_count == NUMBER_SET_BITS_MAX
