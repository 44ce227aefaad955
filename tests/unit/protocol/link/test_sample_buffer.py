"""The samples that a stream keeps."""

from __future__ import annotations

from skerry.protocol.link.sample_buffer import SampleBuffer


def closed(buffer: SampleBuffer, size: int, reader_count: int = 1):  # type: ignore[no-untyped-def]
    buffer.packing.add(7, 0, bytes(size), None)
    sample = buffer.close_sample(reader_count)
    assert sample is not None
    return sample


def test_without_open_messages_there_is_no_sample() -> None:
    assert SampleBuffer(100).close_sample(1) is None


def test_samples_and_packets_are_numbered_in_order() -> None:
    buffer = SampleBuffer(100)
    samples = [closed(buffer, size) for size in (10, 250, 10)]
    assert [one.seq for one in samples] == [1, 2, 3]
    assert list(buffer.packets) == list(range(buffer.end_packet))
    assert buffer.packet_count(3) == 1
    assert buffer.packet_count(2) == 1 + len(samples[1].packets)
    assert buffer.packet_count(9) == 0


def test_a_sample_is_kept_until_all_receivers_have_it() -> None:
    buffer = SampleBuffer(100)
    first, second = closed(buffer, 10, 2), closed(buffer, 250, 1)
    buffer.release_all([first, second])
    assert list(buffer.samples) == [first.seq]
    assert [one.sample for one in buffer.packets.values()] == [first]
    buffer.release(first)
    assert buffer.samples == {}
    assert buffer.packets == {}


def test_packets_are_counted_from_the_first_sample_that_is_kept() -> None:
    """A receiver may have the first ones, out of order, while its host takes nothing."""
    buffer = SampleBuffer(100)
    first, second, third = (closed(buffer, size) for size in (10, 250, 10))
    buffer.release_all([first])
    assert buffer.packet_count(1) == 1 + len(second.packets)
    buffer.release_all([second, third])
    assert buffer.packet_count(1) == 0
