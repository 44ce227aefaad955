"""Identities and the arithmetic of sequence numbers."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.ids import NODE_CLIENT, hash64, seq_add, seq_distance

BITS = st.sampled_from([8, 16, 31, 32, 64])


def test_hash64_is_the_head_of_sha256_as_a_signed_number() -> None:
    # SHA-256 of nothing begins with e3b0c44298fc1c14.
    assert hash64("") == 0xE3B0C44298FC1C14 - (1 << 64)
    assert hash64(b"abc") == 0xBA7816BF8F01CFEA - (1 << 64)


def test_hash64_of_a_text_is_that_of_its_utf8() -> None:
    assert hash64("Fähre") == hash64("Fähre".encode())


@given(st.binary())
def test_hash64_fits_a_signed_64_bit_number(data: bytes) -> None:
    assert -(1 << 63) <= hash64(data) < 1 << 63


@pytest.mark.slow
def test_hash64_is_the_same_in_another_process() -> None:
    code = "from skerry.ids import hash64; print(hash64('Vessel'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == hash64("Vessel")


@pytest.mark.parametrize(
    ("seq", "count", "bits", "expected"),
    [(0, 1, 8, 1), (255, 1, 8, 0), (0, -1, 8, 255), (65535, 2, 16, 1), (5, 0, 32, 5)],
)
def test_seq_add_wraps(seq: int, count: int, bits: int, expected: int) -> None:
    assert seq_add(seq, count, bits=bits) == expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [(0, 0, 0), (0, 1, 1), (1, 0, -1), (255, 0, 1), (0, 255, -1), (0, 127, 127), (0, 128, -128)],
)
def test_seq_distance_takes_the_shorter_way_round(first: int, second: int, expected: int) -> None:
    assert seq_distance(first, second, bits=8) == expected


@given(BITS, st.data())
def test_adding_the_distance_leads_back(bits: int, data: st.DataObject) -> None:
    number = st.integers(0, (1 << bits) - 1)
    first, second = data.draw(number), data.draw(number)
    assert seq_add(first, seq_distance(first, second, bits=bits), bits=bits) == second


@given(BITS, st.data())
def test_distance_is_what_was_added(bits: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, (1 << bits) - 1))
    count = data.draw(st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1))
    assert seq_distance(first, seq_add(first, count, bits=bits), bits=bits) == count


def test_the_node_itself_comes_before_all_clients() -> None:
    assert NODE_CLIENT == 1
