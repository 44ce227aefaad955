"""Sealing and opening without a layout: any content comes back, and whatever differs is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.protocol.sealing.group_keys import KEY_BYTES, Cipher, GroupKey, KeyRing
from skerry.protocol.sealing.opener import TAG_BYTES, Opener, SealRefusal, SealStatistics
from skerry.protocol.sealing.sealer import Sealer, SenderCipher, SenderCiphers

S = 1_000_000_000
WALL_NS = 1_794_726_418 * S
HEAD = b"a head of 20 bytes.."
CLEAR_BYTES = len(HEAD) + 9
WHO = b"sender 1"
NONCE = b"head"


def ring(*key_ids: int, cipher: Cipher = Cipher.AES, first: int = 1) -> KeyRing:
    secret = bytes([first]) * KEY_BYTES
    return KeyRing(GroupKey(key_id=one, secret=secret, cipher=cipher) for one in key_ids or (1,))


def opener(
    keys: KeyRing | None = None, *, label: bytes = b"test", sender_count_max: int = 3
) -> Opener:
    return Opener(
        keys or ring(),
        SenderCiphers(label),
        freshness_ns=300 * S,
        sender_count_max=sender_count_max,
    )


def sealed(content: bytes = b"content", *, who: bytes = WHO, keys: KeyRing | None = None) -> bytes:
    sealer = Sealer(keys or ring(), SenderCiphers(b"test"))
    return sealer.seal(who, NONCE, HEAD, content, WALL_NS)


def opened(at: Opener, datagram: bytes, *, who: bytes = WHO, wall_ns: int = WALL_NS) -> object:
    return at.open(who, NONCE, datagram, CLEAR_BYTES, wall_ns)


@given(content=st.binary(max_size=200), cipher=st.sampled_from(Cipher))
def test_any_content_comes_back(content: bytes, cipher: Cipher) -> None:
    datagram = sealed(content, keys=ring(cipher=cipher))
    assert len(datagram) == CLEAR_BYTES + len(content) + TAG_BYTES
    assert datagram.startswith(HEAD)
    assert opened(opener(ring(cipher=cipher)), datagram) == content


@given(position=st.integers(min_value=0, max_value=CLEAR_BYTES + 22), bit=st.integers(0, 7))
def test_each_changed_bit_is_noticed(position: int, bit: int) -> None:
    datagram = bytearray(sealed())
    datagram[position] ^= 1 << bit
    at = opener()
    is_key_id = position == len(HEAD)
    expected = SealRefusal.KEY if is_key_id else SealRefusal.FORGED
    assert opened(at, bytes(datagram)) is expected
    assert at.sender_count == 0
    assert at.refused[expected] == 1


@given(order=st.permutations(range(12)), repeats=st.lists(st.integers(0, 11), max_size=12))
def test_each_datagram_is_opened_once_in_any_order(order: list[int], repeats: list[int]) -> None:
    sealer, at = Sealer(ring(), SenderCiphers(b"test")), opener()
    datagrams = [sealer.seal(WHO, NONCE, HEAD, bytes([one]), WALL_NS) for one in range(12)]
    results = [opened(at, datagrams[one]) for one in [*order, *repeats]]
    assert results[:12] == [bytes([one]) for one in order]
    assert set(results[12:]) <= {SealRefusal.REPLAYED}
    assert at.opened_count == sealer.sealed_count == 12


def test_no_two_senders_have_the_same_cipher() -> None:
    ciphers = SenderCiphers(b"test")
    key = ring().get(1)
    assert key is not None
    made: list[SenderCipher] = [ciphers.derive(key, who) for who in (b"1", b"2", b"1")]
    one, two, again = (cipher.encrypt(bytes(12), b"content", b"") for cipher in made)
    assert one == again != two


def test_the_same_key_with_another_label_opens_nothing() -> None:
    assert opened(opener(label=b"another"), sealed()) is SealRefusal.FORGED


def test_the_quietest_sender_is_forgotten_at_the_bound() -> None:
    at = opener(sender_count_max=2)
    for number in range(3):
        who = bytes([number])
        assert opened(at, sealed(who=who), who=who) == b"content"
    assert at.sender_count == 2
    assert opened(at, sealed(who=b"\x02"), who=b"\x02") is SealRefusal.REPLAYED


def test_a_window_is_not_kept_longer_than_its_counters_are_fresh() -> None:
    at = opener(sender_count_max=10)
    assert opened(at, sealed()) == b"content"
    later = Sealer(ring(), SenderCiphers(b"test"))
    now_ns = WALL_NS + 301 * S
    datagram = later.seal(b"sender 2", NONCE, HEAD, b"later", now_ns)
    assert opened(at, datagram, who=b"sender 2", wall_ns=now_ns) == b"later"
    assert at.sender_count == 1
    assert opened(at, sealed(), wall_ns=now_ns) is SealRefusal.STALE


def test_statistics_of_a_seal_are_values() -> None:
    row = SealStatistics(sealed_count=1, opened_count=2, refused={}, key_id=3, sender_count=4)
    with pytest.raises(AttributeError):
        row.key_id = 5  # type: ignore[misc]
