"""Repeated headers: which ones are recognised."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.protocol.access.header import NEVER, Header, read_header, write_header
from skerry.protocol.access.header_repeats import HeaderRepeat


def header(**facts: object) -> Header:
    made = Header(str(facts.pop("name", "Vessel")))
    made.sent_time = 1.5
    made.attributes = 6
    made.remove_obj = 0
    for name, value in facts.items():
        setattr(made, name, value)
    return made


def body(made: Header, payload: bytes = b"\xa1\x01\x05") -> bytes:
    return write_header(made) + payload


def repeat_of(made: Header) -> HeaderRepeat:
    data = body(made)
    found, size = read_header(data, 0)
    return HeaderRepeat(data, size, found)


def test_header_that_differs_in_its_time_fits() -> None:
    repeat = repeat_of(header())
    other = body(header(sent_time=99.25), b"\xa0")
    assert repeat.is_usable
    assert repeat.fits(other, 0, len(other))
    assert repeat.sent_time(other, 0) == 99.25
    assert other[repeat.size :] == b"\xa0"


def test_forwarded_header_fits_whatever_its_two_times_are() -> None:
    facts = {"sender": 7, "is_from_myself": 0}
    repeat = repeat_of(header(server_sent_time=2.5, **facts))
    other = body(header(sent_time=3.5, server_sent_time=4.5, **facts))
    assert repeat.has_server_time
    assert repeat.fits(other, 0, len(other))
    assert (repeat.sent_time(other, 0), repeat.server_sent_time(other, 0)) == (3.5, 4.5)


@pytest.mark.parametrize(
    "change",
    [
        {"name": "Vessex"},
        {"name": "Vessels"},
        {"attributes": 7},
        {"attributes": 4096},
        {"remove_obj": 1},
        {"subject": "/a"},
        {"sender": 3},
        {"server_sent_time": 5.0},
        {"from_cache": 0},
    ],
)
def test_header_that_differs_in_anything_else_does_not_fit(change: dict[str, object]) -> None:
    other = body(header(**change))
    assert not repeat_of(header()).fits(other, 0, len(other))


def test_header_without_a_time_is_of_no_use() -> None:
    assert not repeat_of(header(sent_time=NEVER)).is_usable


def test_bytes_that_end_early_do_not_fit() -> None:
    repeat = repeat_of(header(server_sent_time=2.5))
    whole = body(header(server_sent_time=2.5), b"")
    assert repeat.fits(whole, 0, len(whole))
    assert not any(repeat.fits(whole[:size], 0, size) for size in range(len(whole)))


def test_long_names_are_found_behind_their_longer_heads() -> None:
    for length in (1, 23, 24, 255, 256, 300):
        repeat = repeat_of(header(name="N" * length))
        assert repeat.is_usable
        other = b"before" + body(header(name="N" * length, sent_time=8.0))
        assert repeat.fits(other, 6, len(other))


FACTS = (
    *("type_name", "sent_time", "server_sent_time", "attributes", "sender", "from_cache"),
    *("remove_obj", "is_from_myself", "subscription_id", "subject", "sequence", "position", "node"),
)
NUMBERS = st.integers(min_value=-1, max_value=70_000)
HEADERS = st.builds(
    lambda name, sent, server, attributes, sender, remove, subject: header(
        name=name,
        sent_time=sent,
        server_sent_time=server,
        attributes=attributes,
        sender=sender,
        remove_obj=remove,
        subject=subject,
    ),
    st.text(min_size=1, max_size=30),
    st.sampled_from([NEVER, 1.0, 2.5]),
    st.sampled_from([NEVER, 1.0, 2.5]),
    NUMBERS,
    NUMBERS,
    st.integers(min_value=-1, max_value=1),
    st.sampled_from(["", "/a", "/b/c"]),
)


@given(first=HEADERS, second=HEADERS)
def test_a_header_that_fits_differs_only_in_its_times(first: Header, second: Header) -> None:
    repeat = repeat_of(first)
    data = body(second)
    if not repeat.is_usable or not repeat.fits(data, 0, len(data)):
        return
    found, size = read_header(data, 0)
    assert size == repeat.size
    assert found.sent_time == repeat.sent_time(data, 0)
    assert found.server_sent_time == repeat.server_sent_time(data, 0)
    for name in FACTS:
        if name not in ("sent_time", "server_sent_time"):
            assert getattr(repeat.header, name) == getattr(found, name), name
