"""Samples and datagrams with large parts, which are put together in another way than small ones."""

from __future__ import annotations

import pytest

from skerry.protocol.rtps.datagram_reader import Datagram, DatagramReader
from skerry.protocol.rtps.datagram_writer import DatagramWriter
from skerry.protocol.rtps.entities import Channel, StreamClass, guid_prefix, writer_id
from skerry.protocol.rtps.samples import RECORD_BYTES, SAMPLE_BYTES, SampleWriter, read_records
from skerry.protocol.rtps.submessages import LARGE_BYTES, Data, DataFragment, Heartbeat

WRITER = writer_id(StreamClass.RELIABLE_SHARED, 7)
LARGE = bytes(range(256)) * 20
assert len(LARGE) > LARGE_BYTES


@pytest.mark.parametrize("is_padded", [True, False])
@pytest.mark.parametrize(
    "sizes",
    [
        (LARGE_BYTES - 1,),
        (LARGE_BYTES,),
        (3, LARGE_BYTES + 1, 5),
        (LARGE_BYTES, 0, LARGE_BYTES + 2),
        (100_001,),
    ],
    ids=str,
)
def test_records_of_all_sizes_are_read_as_written(sizes: tuple[int, ...], is_padded: bool) -> None:
    writer = SampleWriter()
    for turn in range(2):
        records = [(1 << 40 | turn, n, bytes([n]) * size) for n, size in enumerate(sizes)]
        for data_type, flags, data in records:
            writer.add(data_type, flags, data)
        sample = writer.finish(is_padded=is_padded)
        assert read_records(sample) == records
        size = SAMPLE_BYTES + sum(RECORD_BYTES + size for size in sizes)
        assert len(sample) == (-(-size // 4) * 4 if is_padded else size)


@pytest.mark.parametrize("has_checksum", [True, False])
def test_large_payloads_are_read_as_written_among_other_parts(has_checksum: bool) -> None:
    writer = DatagramWriter(guid_prefix(1, Channel.DATA), has_checksum=has_checksum)
    reader = DatagramReader(guid_prefix(2, Channel.DATA), has_checksum=has_checksum)
    for data in (LARGE, bytes(8), LARGE[:-4]):
        writer.destination(guid_prefix(2, Channel.DATA))
        writer.timestamp(5_000_000_000)
        writer.data(Data(WRITER, 3, data))
        writer.data(Data(WRITER, 4, data))
        writer.heartbeat(Heartbeat(WRITER, 1, 4, 9, False, False))
        found = reader.read(writer.finish())
        assert isinstance(found, Datagram)
        assert found.sent_ns == 5_000_000_000
        first, second, heartbeat = found.submessages
        assert isinstance(first, Data)
        assert isinstance(second, Data)
        assert isinstance(heartbeat, Heartbeat)
        assert (first.payload, second.payload, second.seq) == (data, data, 4)
        assert heartbeat.last_seq == 4


@pytest.mark.parametrize("size", [LARGE_BYTES, LARGE_BYTES + 1, LARGE_BYTES + 3])
def test_a_large_fragment_is_a_view_that_is_padded_and_read_as_written(size: int) -> None:
    sample = memoryview(LARGE * 3)
    writer = DatagramWriter(guid_prefix(1, Channel.DATA))
    reader = DatagramReader(guid_prefix(2, Channel.DATA))
    part = sample[8192 : 8192 + size]
    writer.fragment(DataFragment(WRITER, 3, 2, 8192, 8192 + size, part))
    datagram = writer.finish()
    assert len(datagram) % 4 == 0
    found = reader.read(datagram)
    assert isinstance(found, Datagram)
    (read,) = found.submessages
    assert isinstance(read, DataFragment)
    assert read.data == part
    damaged = bytearray(datagram)
    damaged[3000] ^= 1
    assert not isinstance(reader.read(bytes(damaged)), Datagram)
