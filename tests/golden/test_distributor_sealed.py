"""The layout of sealed datagrams: made step by step as the reference says, and by the seal."""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from skerry.protocol.distributor.sealed_datagrams import GroupSeal
from skerry.protocol.sealing.group_keys import Cipher, GroupKey, KeyRing

FILE = Path(__file__).resolve().parent / "distributor-sealed/sealed.json"
PACKETS: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))["packets"]
CLASSES: dict[str, Any] = {"aes-256-gcm": AESGCM, "chacha20-poly1305": ChaCha20Poly1305}


def part(packet: dict[str, Any], name: str) -> bytes:
    (found,) = [field for field in packet["fields"] if field["name"] == name]
    assert len(bytes.fromhex(found["hex"])) == found["length"]
    assert packet["hex"][2 * found["offset"] :].startswith(found["hex"])
    return bytes.fromhex(found["hex"])


def seal_of(packet: dict[str, Any]) -> GroupSeal:
    key = GroupKey(
        key_id=part(packet, "key_id")[0],
        secret=bytes.fromhex(packet["secret"]),
        cipher=Cipher(packet["cipher"]),
    )
    counter = int.from_bytes(part(packet, "counter"), "big")
    return GroupSeal(KeyRing([key]), wall_ns=lambda: counter)


@pytest.mark.parametrize("packet", PACKETS, ids=lambda packet: packet["cipher"])
def test_the_seal_makes_and_opens_the_recorded_bytes(packet: dict[str, Any]) -> None:
    plain, sealed = bytes.fromhex(packet["plain"]), bytes.fromhex(packet["hex"])
    assert seal_of(packet).seal(plain) == sealed
    assert seal_of(packet).open(sealed) == plain
    assert len(sealed) == packet["length"] == len(plain) + 25


@pytest.mark.parametrize("packet", PACKETS, ids=lambda packet: packet["cipher"])
def test_the_bytes_equal_the_reference(packet: dict[str, Any]) -> None:
    sealed = bytes.fromhex(packet["hex"])
    identity = b"".join(
        part(packet, name)
        for name in ("local_address", "sender_id", "sender_start_time_low32", "application_id")
    )
    info = b"skerry distributor sender key\x00" + packet["cipher"].encode() + b"\x00" + identity
    # HKDF of RFC 5869 with SHA-256 and no salt: one block is as long as the key.
    extracted = hmac.digest(bytes(32), bytes.fromhex(packet["secret"]), hashlib.sha256)
    key = hmac.digest(extracted, info + b"\x01", hashlib.sha256)
    nonce = part(packet, "sender_id") + part(packet, "counter")
    assert nonce.hex() == packet["nonce"]
    content = bytes.fromhex(packet["plain"])[20:]
    made = CLASSES[packet["cipher"]](key).encrypt(nonce, content, sealed[:29])
    assert made == part(packet, "ciphertext") + part(packet, "tag")
    assert sealed == b"\x02\x00" + bytes.fromhex(packet["plain"])[2:20] + sealed[20:29] + made
