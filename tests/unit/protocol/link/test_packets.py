"""Samples and their packets."""

from __future__ import annotations

import pytest

from skerry.protocol.link.packets import Sample


@pytest.mark.parametrize(
    ("size", "fragments"), [(1, [0]), (100, [0]), (101, [1, 2]), (200, [1, 2]), (201, [1, 2, 3])]
)
def test_a_sample_above_the_fragment_size_has_a_packet_for_each_fragment(
    size: int, fragments: list[int]
) -> None:
    data = bytes(range(256))[:size]
    sample = Sample(5, data, 100, 40, None)
    assert [one.fragment for one in sample.packets] == fragments
    assert [one.number for one in sample.packets] == list(range(40, 40 + len(fragments)))
    assert b"".join(data[one.start : one.stop] for one in sample.packets) == data
