"""The messages of the picture as bytes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.errors import DecodeError
from skerry.protocol.machine import Address
from skerry.protocol.picture import bodies
from skerry.protocol.picture.bodies import (
    ElectionAction,
    ElectionMessage,
    read_election,
    read_forget,
    read_raw,
    read_state,
    write_election,
    write_forget,
    write_raw,
    write_state,
)
from skerry.protocol.picture.entries import (
    MORE_DEAD_COUNT_MAX,
    PICTURE_NODE_COUNT_MAX,
    PICTURE_TEXT_CHAR_COUNT_MAX,
    NodeCounters,
    NodeEntry,
    RawStatistics,
    SystemState,
)

READERS = [read_election, read_forget, read_raw, read_state]


def test_raw_statistics_are_read_as_written(entry: Callable[..., NodeEntry]) -> None:
    counters = NodeCounters(control_received_count=3, round_trip_us=9, backlog_bytes=77)
    other = entry(-6, is_dead=True, generation=2, dead_reason=4, counters=counters)
    raw = RawStatistics(
        me=entry(5), election_id=11, incarnation_id=-12, nodes=(other,), more_dead=(8, -9)
    )
    found = read_raw(write_raw(raw))
    assert found == raw
    assert found.nodes[0].counters == counters


def test_a_state_is_read_as_written(entry: Callable[..., NodeEntry]) -> None:
    state = SystemState(
        elected_id=5, election_id=6, sequence=7, is_detached=True, nodes=(entry(5), entry(-3))
    ).sealed()
    assert read_state(write_state(state)) == state
    assert write_state(read_state(write_state(state))) == write_state(state)


@given(st.sampled_from(ElectionAction), st.integers(-(2**63), 2**63 - 1))
def test_a_step_of_an_election_is_read_as_written(action: ElectionAction, number: int) -> None:
    message = ElectionMessage(action=action, election_id=number)
    assert read_election(write_election(message)) == message


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_nodes_to_forget_are_read_as_written(nodes: list[int]) -> None:
    assert read_forget(write_forget(tuple(nodes))) == tuple(nodes)


@given(st.binary(max_size=200), st.sampled_from(READERS))
def test_any_bytes_are_read_or_refused(body: bytes, read: Callable[[bytes], object]) -> None:
    try:
        read(body)
    except DecodeError as error:
        assert str(error)


def test_an_unknown_step_of_an_election_is_refused() -> None:
    with pytest.raises(DecodeError, match="3"):
        read_election(b"\x08\x03")


def test_more_nodes_than_the_bound_are_refused(entry: Callable[..., NodeEntry]) -> None:
    nodes = tuple(entry(1 + number) for number in range(PICTURE_NODE_COUNT_MAX + 1))
    state = SystemState(elected_id=1, election_id=1, sequence=1, nodes=nodes[:-1])
    assert len(read_state(write_state(state)).nodes) == PICTURE_NODE_COUNT_MAX
    state = SystemState(elected_id=1, election_id=1, sequence=1, nodes=nodes)
    with pytest.raises(DecodeError, match=str(PICTURE_NODE_COUNT_MAX)):
        read_state(write_state(state))


def test_more_dead_nodes_than_are_remembered_are_refused(entry: Callable[..., NodeEntry]) -> None:
    many = tuple(range(MORE_DEAD_COUNT_MAX + 1))
    for read, body in (
        (read_forget, write_forget(many)),
        (read_raw, write_raw(RawStatistics(me=entry(1), more_dead=many))),
    ):
        with pytest.raises(DecodeError, match="100001 dead nodes; the limit is 100000"):
            read(body)


def test_a_long_name_is_cut_and_a_monstrous_one_refused(entry: Callable[..., NodeEntry]) -> None:
    raw = RawStatistics(me=entry(5, name="x" * (PICTURE_TEXT_CHAR_COUNT_MAX + 1)))
    assert read_raw(write_raw(raw)).me.name == "x" * PICTURE_TEXT_CHAR_COUNT_MAX
    raw = RawStatistics(me=entry(5, name="x" * 10_000))
    with pytest.raises(DecodeError, match="10000"):
        read_raw(write_raw(raw))


@pytest.mark.parametrize("text", ["", "harbour:1", "10.0.0.1", "10.0.0.1:0", "10.0.0.1:65536"])
def test_a_text_that_is_no_address_is_an_empty_address(text: str) -> None:
    assert bodies._address(text) == Address("")


def test_addresses_of_ipv6_have_brackets(entry: Callable[..., NodeEntry]) -> None:
    raw = RawStatistics(me=entry(5, control=Address("fd00::5", 26660)))
    body = write_raw(raw)
    assert b"[fd00::5]:26660" in body
    assert read_raw(body) == raw
