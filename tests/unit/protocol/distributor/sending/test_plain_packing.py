"""Both ways to measure what fits; the plain one may need another call for the rest."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skerry.protocol.distributor.sending.packing import fit
from skerry.protocol.distributor.sending.plain_packing import fit_for_this_build, plain_fit


def all_of(measure: object, pieces: list[bytes], room: int) -> list[int]:
    """How many updates a datagram after another takes, asked as a sender does."""
    assert callable(measure)
    counts, first, left, count = [], 0, room, 0
    while first < len(pieces):
        stop = measure(pieces, first, len(pieces), left)
        if stop == first:
            if left == room:
                counts.append(-1)  # too large for any
                first += 2
            else:
                counts.append(count)
                left, count = room, 0
            continue
        count += (stop - first) // 2
        left -= sum(map(len, pieces[first:stop]))
        first = stop
    return [*counts, count]


@given(st.lists(st.binary(max_size=60), max_size=40), st.integers(min_value=-5, max_value=200))
def test_both_fill_datagrams_alike(datas: list[bytes], room: int) -> None:
    pieces = [piece for data in datas for piece in (b"head%d" % len(data), data)]
    assert all_of(plain_fit, pieces, room) == all_of(fit, pieces, room)


def test_a_smaller_one_after_large_ones_needs_a_further_look() -> None:
    pieces = [b"h10", b"x" * 10] + [b"h0", b""] * 20
    stop = plain_fit(pieces, 0, len(pieces), 45)
    assert 0 < stop < fit(pieces, 0, len(pieces), 45)


def test_the_quicker_one_is_used() -> None:
    expected = plain_fit if hasattr(fit, "__code__") else fit
    assert fit_for_this_build() is expected
