"""The layout of sealed datagrams between nodes: made step by step, and by the seal."""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from skerry.ids import hash64
from skerry.protocol.rtps.entities import Channel, guid_prefix, node_of
from skerry.protocol.rtps.sealed_datagrams import LINK_SEAL_BYTES, LinkSeal
from skerry.protocol.sealing.group_keys import Cipher, GroupKey, KeyRing

FILE = Path(__file__).resolve().parent / "rtps-sealed/sealed.json"
PACKETS: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))["packets"]
CLASSES: dict[str, Any] = {"aes-256-gcm": AESGCM, "chacha20-poly1305": ChaCha20Poly1305}


def part(packet: dict[str, Any], name: str) -> bytes:
    (found,) = [field for field in packet["fields"] if field["field"] == name]
    assert len(bytes.fromhex(found["hex"])) == found["length"]
    assert packet["hex"][2 * found["offset"] :].startswith(found["hex"])
    return bytes.fromhex(found["hex"])


def seal_of(packet: dict[str, Any], node: int) -> LinkSeal:
    key = GroupKey(
        key_id=int.from_bytes(part(packet, "SEALED.keyId"), "big"),
        secret=bytes.fromhex(packet["secret"]),
        cipher=Cipher(packet["cipher"]),
    )
    seal = LinkSeal(KeyRing([key]), system=hash64(packet["system"]), freshness_ns=10**9)
    seal.begin(node)
    return seal


@pytest.mark.parametrize("packet", PACKETS, ids=lambda packet: packet["cipher"])
def test_the_seal_makes_and_opens_the_recorded_bytes(packet: dict[str, Any]) -> None:
    plain, sealed = bytes.fromhex(packet["plain"]), bytes.fromhex(packet["hex"])
    wall_ns = int.from_bytes(part(packet, "SEALED.counter"), "big")
    sender = node_of(plain[8:20])
    assert guid_prefix(sender, Channel.DATA) == plain[8:20]
    assert seal_of(packet, sender).seal(Channel.DATA, plain, wall_ns) == sealed
    assert seal_of(packet, 5).open(sealed, wall_ns) == plain
    assert len(sealed) == packet["length"] == len(plain) + LINK_SEAL_BYTES


@pytest.mark.parametrize("packet", PACKETS, ids=lambda packet: packet["cipher"])
def test_the_bytes_equal_the_reference(packet: dict[str, Any]) -> None:
    plain, sealed = bytes.fromhex(packet["plain"]), bytes.fromhex(packet["hex"])
    system = hashlib.sha256(packet["system"].encode()).digest()[:8]
    cipher = packet["cipher"].encode()
    info = b"skerry link sender key\x00" + system + cipher + b"\x00" + plain[8:20]
    # HKDF of RFC 5869 with SHA-256 and no salt: one block is as long as the key.
    extracted = hmac.digest(bytes(32), bytes.fromhex(packet["secret"]), hashlib.sha256)
    key = hmac.digest(extracted, info + b"\x01", hashlib.sha256)
    nonce = plain[8:12] + part(packet, "SEALED.counter")
    assert nonce.hex() == packet["nonce"]
    made = CLASSES[packet["cipher"]](key).encrypt(nonce, plain[20:], sealed[:36])
    assert made == part(packet, "SEALED.content") + part(packet, "SEALED.tag")
    assert int.from_bytes(part(packet, "SEALED.octetsToNextHeader"), "little") == len(sealed) - 24
    assert sealed == plain[:20] + b"\xf1\x01" + sealed[22:36] + made
