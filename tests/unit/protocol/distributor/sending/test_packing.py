"""The open datagram: filled piece by piece, and handed over when it does not fit any more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.protocol.distributor.sending.packing import Packer, fit, numbers
from skerry.protocol.distributor.wire import JAVA_WIRE

HEADER = b"header" + bytes(14)
ROOM = 28 + 100


class Plain(Packer):
    """The simplest that can be made of it: nothing is held, and nothing is too large."""

    def __init__(self, room: int = ROOM, *, is_holding: bool = False) -> None:
        super().__init__(room)
        self.set_header(HEADER)
        self.datagrams: list[bytes] = []
        """Behind their headers, with the number of updates instead."""
        self.seqs: list[int] = []
        self.whole_room = room
        self.is_holding = is_holding
        self.may = True

    def make_head(self, subject: str) -> bytes:
        if subject == "bad":
            raise ValueError(subject)
        head = JAVA_WIRE.subject_head(subject.encode())
        self.heads[subject] = head
        return head

    def may_publish(self, now_ns: int) -> bool:
        return self.may

    def make_room(self, size: int, now_ns: int) -> bool:
        if size + 28 > self.whole_room:
            return False
        if self.size + size > self.whole_room:
            self.flush()
        return True

    def publish_large(self, head: bytes, data: bytes, now_ns: int) -> None:
        self.flush()
        self.datagrams.append(b"large" + head)

    def hold_or_flush(self, now_ns: int) -> None:
        if self.is_holding and not self.hold_until_ns:
            self.hold_until_ns = now_ns + 10
        else:
            self.flush()

    def flush(self) -> None:
        if self.count:
            count = self.count
            self.send(self.take(), count, 0)

    def send(self, datagram: bytes, count: int, now_ns: int) -> None:
        assert datagram[:20] == HEADER
        self.seqs.append(int.from_bytes(datagram[20:24], "big"))
        assert int.from_bytes(datagram[24:28], "big") == count
        self.datagrams.append(b"%d|" % count + datagram[28:])
        self.next_seq += 1


def update(subject: bytes, data: bytes) -> bytes:
    return JAVA_WIRE.subject_head(subject) + len(data).to_bytes(4, "big") + data


def test_an_update_is_sent_at_once_where_nothing_is_held() -> None:
    packer = Plain()
    packer.publish("/a", b"12", 0)
    packer.publish("/a", b"3", 0)
    assert packer.datagrams == [b"1|" + update(b"/a", b"12"), b"1|" + update(b"/a", b"3")]
    assert (packer.size, packer.count) == (28, 0)


def test_updates_share_a_datagram_while_it_is_held() -> None:
    packer = Plain(is_holding=True)
    packer.publish("/a", b"1", 0)
    packer.publish("/b", b"2", 9)
    assert packer.datagrams == []
    packer.publish("/c", b"3", 10)
    assert packer.datagrams == [
        b"3|" + update(b"/a", b"1") + update(b"/b", b"2") + update(b"/c", b"3")
    ]


def test_a_datagram_is_filled_to_the_last_byte_and_no_further() -> None:
    packer = Plain(is_holding=True)
    packer.publish("/a", bytes(ROOM - 28 - 24 - 1), 0)
    packer.publish("/b", b"1", 0)
    assert packer.size == ROOM
    packer.publish("/c", b"", 0)
    assert [len(datagram) for datagram in packer.datagrams] == [2 + ROOM - 28]
    assert packer.count == 1


def test_many_updates_fill_datagrams_also_where_nothing_is_held() -> None:
    packer = Plain()
    # Each takes 20 of 100 bytes.
    updates = [(f"/{n}", bytes(8)) for n in range(10)]
    assert packer.publish_many(updates, 0, 0) == 10
    assert [datagram[:2] for datagram in packer.datagrams] == [b"5|", b"5|"]
    assert packer.publish_many(updates, 7, 0) == 3
    assert packer.datagrams[-1] == b"3|" + b"".join(update(b"/%d" % n, bytes(8)) for n in (7, 8, 9))


def test_a_large_update_among_many_keeps_its_order() -> None:
    packer = Plain()
    packer.publish_many([("/a", b"1"), ("/b", bytes(200)), ("/c", b"3")], 0, 0)
    assert packer.datagrams == [
        b"1|" + update(b"/a", b"1"),
        b"large" + JAVA_WIRE.subject_head(b"/b"),
        b"1|" + update(b"/c", b"3"),
    ]


def test_updates_before_an_invalid_one_are_published() -> None:
    packer = Plain()
    with pytest.raises(ValueError, match="bad"):
        packer.publish_many([("/a", b"1"), ("bad", b""), ("/c", b"3")], 0, 0)
    assert packer.datagrams == [b"1|" + update(b"/a", b"1")]
    assert (packer.size, packer.count) == (28, 0)


def test_many_updates_are_accepted_until_their_publisher_has_to_wait() -> None:
    packer = Plain()
    packer.may = False
    packer.room = -1
    assert packer.publish_many([("/a", b"1")], 0, 0) == 0
    packer.may = True
    packer.room = ROOM
    assert packer.publish_many([("/a", b"1")], 0, 0) == 1


@pytest.mark.parametrize("length", [0, 255, 256, 60_000])
def test_every_length_is_written(length: int) -> None:
    for is_many in (False, True):
        packer = Plain(65_000)
        if is_many:
            packer.publish_many([("/a", bytes(length))], 0, 0)
        else:
            packer.publish("/a", bytes(length), 0)
        assert packer.datagrams == [b"1|" + update(b"/a", bytes(length))]


@given(st.lists(st.tuples(st.sampled_from(["/a", "/bb"]), st.binary(max_size=60)), max_size=30))
def test_single_and_batched_publishing_send_the_same_updates_in_the_same_order(
    updates: list[tuple[str, bytes]],
) -> None:
    single, many = Plain(is_holding=True), Plain(is_holding=True)
    for subject, data in updates:
        single.publish(subject, data, 0)
    many.publish_many(updates, 0, 0)
    single.flush()
    many.flush()
    assert single.datagrams == many.datagrams


def test_decisions_are_left_to_the_caller() -> None:
    packer = Packer(ROOM)
    with pytest.raises(NotImplementedError):
        packer.make_head("/a")
    with pytest.raises(NotImplementedError):
        packer.may_publish(0)
    with pytest.raises(NotImplementedError):
        packer.make_room(0, 0)
    with pytest.raises(NotImplementedError):
        packer.publish_large(b"", b"", 0)
    with pytest.raises(NotImplementedError):
        packer.send(b"", 0, 0)
    with pytest.raises(NotImplementedError):
        packer.hold_or_flush(0)


def pieces(*updates: tuple[bytes, bytes]) -> list[bytes]:
    """Updates that were cut before."""
    cut: list[bytes] = []
    for subject, data in updates:
        cut += (JAVA_WIRE.subject_head(subject) + len(data).to_bytes(4, "big"), data)
    return cut


@given(st.lists(st.binary(max_size=120), max_size=30), st.booleans())
def test_pieces_make_the_same_datagrams_as_updates(datas: list[bytes], is_holding: bool) -> None:
    by_pieces, by_updates = Plain(is_holding=is_holding), Plain(is_holding=is_holding)
    cut = pieces(*((b"/a", data) for data in datas))
    assert by_pieces.publish_pieces(cut, 1) == len(cut)
    assert by_updates.publish_many([("/a", data) for data in datas], 0, 1) == len(datas)
    by_pieces.flush()
    by_updates.flush()
    assert by_pieces.datagrams == by_updates.datagrams


def test_pieces_that_have_to_wait_are_not_accepted() -> None:
    packer = Plain(room=-1)
    packer.may = False
    assert packer.publish_pieces(pieces((b"/a", b"1")), 1) == 0
    assert not packer.datagrams


def test_as_many_updates_fit_as_there_is_room_for() -> None:
    cut = pieces((b"/a", b"1"), (b"/a", b"22"), (b"/a", b"333"))
    sizes = [len(b"".join(cut[first : first + 2])) for first in (0, 2, 4)]
    assert fit(cut, 0, 6, sum(sizes)) == 6
    assert fit(cut, 0, 6, sum(sizes) - 1) == 4
    assert fit(cut, 2, 4, 1000) == 4
    assert fit(cut, 0, 6, 3) == 0
    assert fit(cut, 0, 6, -1) == 0


def test_datagrams_have_the_next_numbers_which_wrap() -> None:
    packer = Plain()
    packer.next_seq = 2**32 - 2
    packer.publish("/a", b"", 0)
    packer.publish_pieces(pieces(*[(b"/a", bytes(40))] * 2), 0)
    assert packer.seqs == [2**32 - 2, 2**32 - 1, 0]
    assert numbers(2**32 + 258, 3) == b"\0\0\1\2\0\0\0\3"


def test_a_new_header_is_that_of_the_open_datagram_too() -> None:
    packer = Packer(ROOM)
    packer.put(b"h", b"d")
    packer.set_header(HEADER)
    assert packer.take() == HEADER + bytes(3) + b"\1" + bytes(3) + b"\1" + b"h\0\0\0\1d"
