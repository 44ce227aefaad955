"""Node types and their parameters."""

from __future__ import annotations

from typing import Any

import pytest

from skerry.errors import ConfigError
from skerry.protocol.link.config import DATAGRAM_BYTES_MIN, FRAGMENT_COUNT_MAX, LinkConfig
from skerry.protocol.machine import Address
from skerry.protocol.node_types import (
    HEARTBEAT_SLACK_NS,
    LINK_WINDOW_COUNT_MAX,
    NODE_TYPE_COUNT_MAX,
    NodeType,
    NodeTypes,
)
from skerry.protocol.rtps.entities import Channel

GROUPS: dict[str, Any] = {"multicast_control": "239.1.1.1:1", "multicast_data": "239.1.1.1:2"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("heartbeat_interval_ms", 9),
        ("lost_heartbeat_count_max", 0),
        ("window_packet_count", LINK_WINDOW_COUNT_MAX + 1),
        ("window_bytes", 0),
        ("ack_request_threshold", 65),
        ("retry_timeouts_ms", ()),
        ("retry_timeouts_ms", (20, 0)),
        ("multicast_ttl", 256),
        ("lag_grace_ms", 9),
        ("lag_limit_ms", -1),
        ("backlog_bytes_max", 0),
        ("name", ""),
        ("multicast_control", "239.1.1.1:1"),
    ],
)
def test_a_wrong_parameter_is_refused_by_its_name(key: str, value: Any) -> None:
    fields: dict[str, Any] = {key: value}
    with pytest.raises(ValueError, match=key):
        NodeType(**fields)


@pytest.mark.parametrize("text", ["10.0.0.1:1", "239.1.1.1", "239.1.1.1:0", "harbour:1"])
def test_a_group_is_a_multicast_address_and_a_port(text: str) -> None:
    with pytest.raises(ValueError, match="multicast_data"):
        NodeType(**{**GROUPS, "multicast_data": text})


def test_the_largest_window_is_accepted() -> None:
    assert NodeType(window_packet_count=LINK_WINDOW_COUNT_MAX).window_packet_count == 256


def test_times_follow_from_the_parameters() -> None:
    one = NodeType(heartbeat_interval_ms=100, lost_heartbeat_count_max=3, **GROUPS)
    assert one.dead_timeout_ns == 3 * (100_000_000 + HEARTBEAT_SLACK_NS)
    assert one.lag_limit_ns == 2 * one.dead_timeout_ns
    assert one.group(Channel.CONTROL) == Address("239.1.1.1", 1)
    assert NodeType().group(Channel.DATA) is None


@pytest.mark.parametrize(
    ("types", "detail"),
    [
        ([], "1 to 64"),
        ([NodeType(name=f"t{n}") for n in range(NODE_TYPE_COUNT_MAX + 1)], "65 types"),
        ([NodeType(name="a"), NodeType(name="a")], "name a"),
        ([NodeType(name="a", light=True)], "may_form_system = false"),
        ([NodeType(name="a", may_form_system=False)], "no type may form a system"),
        ([NodeType(name="a", **GROUPS), NodeType(name="b", **GROUPS)], "used twice"),
        (
            [
                NodeType(name="a", **GROUPS),
                NodeType(name="b", multicast_control="[ff18::1]:1", multicast_data="[ff18::1]:2"),
            ],
            "mix IPv4 and IPv6",
        ),
    ],
)
def test_types_that_contradict_each_other_are_refused(types: list[NodeType], detail: str) -> None:
    with pytest.raises(ConfigError, match=detail):
        NodeTypes(types)


def test_as_many_types_as_the_bound_are_accepted_and_found() -> None:
    types = NodeTypes([NodeType(name=f"type-{n}") for n in range(NODE_TYPE_COUNT_MAX)])
    one = types.named("type-7")
    assert types.by_id(one.id) is one
    assert types.by_tag(one.tag) is one
    assert types.by_id(1) is None
    with pytest.raises(ConfigError, match="there is no type ship"):
        types.named("ship")


def test_a_message_has_no_more_fragments_than_their_numbers_allow() -> None:
    config = LinkConfig(datagram_bytes=512, message_bytes_max=64 * 1024 * 1024)
    assert config.fragment_bytes * FRAGMENT_COUNT_MAX < config.message_bytes_max


@pytest.mark.parametrize(
    "key",
    [
        "datagram_bytes",
        "loopback_datagram_bytes",
        "send_queue_packet_count",
        "send_queue_bytes",
        "message_bytes_max",
    ],
)
def test_a_wrong_parameter_of_the_link_is_refused(key: str) -> None:
    fields: dict[str, Any] = {key: 0}
    with pytest.raises(ValueError, match=key):
        LinkConfig(**fields)


def test_datagrams_are_larger_on_loopback_as_far_as_its_interface_has_room() -> None:
    config = LinkConfig(checksum=False)
    assert config.on_loopback(65_488) == LinkConfig(datagram_bytes=32_768, checksum=False)
    assert config.on_loopback(1452).datagram_bytes == 1452
    assert config.on_loopback(100).datagram_bytes == DATAGRAM_BYTES_MIN


def test_a_queue_has_as_many_packets_as_its_bytes_allow() -> None:
    assert LinkConfig().queue_packet_count == LinkConfig().send_queue_packet_count
    large = LinkConfig(datagram_bytes=32_768)
    assert large.queue_packet_count == 32
    assert NodeType().window(large.datagram_bytes) == 8 < large.queue_packet_count
    assert LinkConfig(send_queue_bytes=1).queue_packet_count == 1


def test_an_acknowledgement_is_requested_within_each_window() -> None:
    one = NodeType()
    assert one.ack_threshold(one.window(1450)) == 32 == one.window(1450) // 2
    assert one.ack_threshold(one.window(32_768)) == 4 == one.window(32_768) // 2
    assert NodeType(window_bytes=1).ack_threshold(1) == 1
