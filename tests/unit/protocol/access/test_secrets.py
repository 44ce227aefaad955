"""Proofs of a secret: the digests every program computes, and only the right one passes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.protocol.access.secrets import digest, is_right_answer

FOLDER = Path(__file__).resolve().parents[3] / "golden" / "dots"
DIGESTS = json.loads((FOLDER / "auth-digests.json").read_text(encoding="utf-8"))["digests"]
KNOWN: dict[str, Any] = {"name": "clientName", "secret": "secret", "nonce": 5, "cnonce": "cnonce"}
RIGHT = "de10dac51d89b3e206e47d29d270472dca04cc860d71ec3cb563bc619ff7794d"


@pytest.mark.parametrize("recorded", DIGESTS, ids=lambda d: f"{d['clientName']}-{d['nonce']}")
def test_digests_are_the_recorded_ones(recorded: dict[str, Any]) -> None:
    known = {
        "name": recorded["clientName"],
        "secret": recorded["secret"],
        "nonce": recorded["nonce"],
        "cnonce": recorded["cnonce"],
    }
    assert digest(**known) == recorded["response"]
    assert is_right_answer(recorded["response"], **known)


def test_the_digest_of_a_known_challenge() -> None:
    assert digest(**KNOWN) == RIGHT
    zero = "f374890c4765d9da457724f82f516f4ebc874a24b4ea5a2a0f983922aa0b8149"
    assert digest(**KNOWN | {"nonce": 0}) == zero


def test_the_case_of_an_answer_does_not_matter() -> None:
    assert is_right_answer(RIGHT.upper(), **KNOWN)
    assert is_right_answer(RIGHT.title(), **KNOWN)


@pytest.mark.parametrize(
    "other",
    [
        {"name": "clientname"},
        {"secret": "Secret"},
        {"nonce": 5 << 56},
        {"nonce": 2**64 - 1},
        {"cnonce": ""},
    ],
    ids=repr,
)
def test_another_name_secret_or_challenge_has_another_answer(other: dict[str, Any]) -> None:
    assert not is_right_answer(RIGHT, **KNOWN | other)


@pytest.mark.parametrize("answer", ["", RIGHT[:-1], RIGHT + "0", "0" * 64, "ä" * 64, "\udcff" * 64])
def test_any_other_answer_is_wrong(answer: str) -> None:
    assert not is_right_answer(answer, **KNOWN)


@given(name=st.binary(), cnonce=st.binary(), answer=st.binary(), nonce=st.integers(0, 2**64 - 1))
def test_any_input_of_a_client_is_classified(
    name: bytes, cnonce: bytes, answer: bytes, nonce: int
) -> None:
    """Text of the wire need not be UTF-8."""
    known: dict[str, Any] = {
        "name": name.decode("utf-8", "surrogateescape"),
        "secret": "sesame",
        "nonce": nonce,
        "cnonce": cnonce.decode("utf-8", "surrogateescape"),
    }
    assert not is_right_answer(answer.decode("utf-8", "surrogateescape"), **known)
    assert is_right_answer(digest(**known), **known)
