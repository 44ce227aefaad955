"""Identities, and the hash that makes them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.ids import NODE_CLIENT, hash64


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


def test_the_node_itself_comes_before_all_clients() -> None:
    assert NODE_CLIENT == 1
