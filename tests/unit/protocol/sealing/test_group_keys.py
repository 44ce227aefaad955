"""Keys of a group: the key file, and which key is used for sending at which time."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from skerry.errors import ConfigError
from skerry.protocol.sealing.group_keys import (
    GROUP_KEY_COUNT_MAX,
    KEY_BYTES,
    Cipher,
    GroupKey,
    KeyRing,
    key_of_passphrase,
    parse_keys,
)

SECRET = bytes(range(KEY_BYTES))
S = 1_000_000_000


def key(key_id: int, **fields: Any) -> GroupKey:
    return GroupKey(key_id=key_id, secret=SECRET, **fields)


def test_a_key_file_gives_a_ring() -> None:
    ring = parse_keys(
        f"""
        [[key]]
        id = 1
        secret = "{SECRET.hex()}"

        [[key]]
        id = 2
        secret = "{base64.b64encode(SECRET[::-1]).decode()}"
        cipher = "chacha20-poly1305"
        from = 1970-01-02T01:00:00.5+01:00
        """,
        origin="file keys.toml",
    )
    assert len(ring) == 2
    assert ring.get(1) == key(1)
    assert ring.get(2) == GroupKey(
        key_id=2, secret=SECRET[::-1], cipher=Cipher.CHACHA, from_ns=86_400 * S + S // 2
    )
    assert ring.get(3) is None


def test_the_newest_key_whose_time_has_come_is_used_for_sending() -> None:
    ring = KeyRing([key(9, from_ns=30 * S), key(4), key(7, from_ns=10 * S)])
    assert ring.sending(0) == (key(4), 10 * S)
    assert ring.sending(10 * S - 1)[0].key_id == 4
    assert ring.sending(10 * S) == (key(7, from_ns=10 * S), 30 * S)
    assert ring.sending(99 * S) == (key(9, from_ns=30 * S), None)


def test_before_the_time_of_any_key_the_earliest_is_used_for_sending() -> None:
    ring = KeyRing([key(1, from_ns=20 * S), key(2, from_ns=30 * S)])
    assert ring.sending(0)[0].key_id == 1


def test_of_two_keys_of_one_time_the_higher_id_is_newer() -> None:
    assert KeyRing([key(2), key(1)]).sending(0)[0].key_id == 2


@pytest.mark.slow
def test_a_passphrase_is_one_key_everywhere() -> None:
    found = key_of_passphrase("correct horse battery staple")
    assert found.hex() == "2f258f99f0b0bc7813602696eeaa058a989bfb796fbde38af5f8c3f4276d1847"
    ring = parse_keys(
        '[[key]]\nid = 1\npassphrase = "correct horse battery staple"', origin="file k"
    )
    assert ring.get(1) == GroupKey(key_id=1, secret=found)


def test_secrets_are_not_shown() -> None:
    assert SECRET.hex() not in repr(key(1))
    assert "\\x01" not in repr(key(1))


def test_a_ring_has_no_more_keys_than_allowed() -> None:
    KeyRing([key(number) for number in range(GROUP_KEY_COUNT_MAX)])
    with pytest.raises(ValueError, match="the limit is 16"):
        KeyRing([key(number) for number in range(GROUP_KEY_COUNT_MAX + 1)])
    # Nor does a file take the time to derive more.
    text = '[[key]]\nid = 1\npassphrase = "a long enough text"\n' * (GROUP_KEY_COUNT_MAX + 1)
    with pytest.raises(ConfigError, match="17 keys, the limit is 16"):
        parse_keys(text, origin="file k")


@pytest.mark.parametrize("key_id", [0, 255])
def test_ids_are_one_byte(key_id: int) -> None:
    assert key(key_id).key_id == key_id


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("", "there is no key"),
        ("x = ", "not TOML"),
        ("keys = 1", "a key file has no 'keys'"),
        ("key = 1", "not a list of tables"),
        ("[key]\nid = 1", "not a list of tables"),
        ("[[key]]\nid = 1", "key 1: set either a secret or a passphrase"),
        ('[[key]]\nid = 1\nsecret = "00"\npassphrase = "x"', "either a secret or a passphrase"),
        ('[[key]]\nid = 1\nsecret = "00"', "not 32 bytes in hex or base64"),
        ('[[key]]\nid = 1\nsecret = "nonsense"', "not 32 bytes in hex or base64"),
        ("[[key]]\nid = 1\nsecret = 7", "the secret is not a text"),
        ('[[key]]\nid = 1\npassphrase = "too short"', "at least 12 characters"),
        (f'[[key]]\nsecret = "{SECRET.hex()}"', "without an id"),
        (f'[[key]]\nid = true\nsecret = "{SECRET.hex()}"', "without an id"),
        (f'[[key]]\nid = 256\nsecret = "{SECRET.hex()}"', "0 to 255, not 256"),
        (f'[[key]]\nid = -1\nsecret = "{SECRET.hex()}"', "0 to 255, not -1"),
        (f'[[key]]\nid = 1\nsecret = "{SECRET.hex()}"\n' * 2, "two keys have the id 1"),
        (f'[[key]]\nid = 1\nsecret = "{SECRET.hex()}"\ncipher = "rot13"', "'rot13' is not one of"),
        (f'[[key]]\nid = 1\nsecret = "{SECRET.hex()}"\nform = 1', "did you mean from?"),
        (f'[[key]]\nid = 1\nsecret = "{SECRET.hex()}"\nfrom = 2026-01-01', "with a zone"),
        (f'[[key]]\nid = 1\nsecret = "{SECRET.hex()}"\nfrom = 2026-01-01T00:00:00', "a zone"),
    ],
)
def test_the_error_about_a_key_file_names_the_fault(text: str, detail: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_keys(text, origin="file keys.toml")
    assert detail in str(error.value)
    assert str(error.value).startswith("key_file (file keys.toml): ")
    assert error.value.hint is not None
    assert SECRET.hex() not in str(error.value)
