"""Control messages carry the identity of their sender, in the dialect of the group."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from skerry.protocol.distributor.config import Dialect, DistributorConfig
from skerry.protocol.distributor.events import SenderInfo
from skerry.protocol.distributor.identity import SenderIdentity
from skerry.protocol.distributor.messages import GOODBYE, HEARTBEAT, RELAYED, WHOLE
from skerry.protocol.distributor.sending.control_messages import ControlMessages

IDENTITY = SenderIdentity(
    address=b"\x0a\0\0\1", sender_id=61_234, start_ms=1_794_726_418_298, application_id=7
)
GROUP = b"\xef\xc0\x07\x01"
OTHER = SenderInfo(address="10.0.0.2", sender_id=5, start=2**32 + 6, application_id=7)


def messages(**config: Any) -> ControlMessages:
    return ControlMessages(IDENTITY, DistributorConfig(**config), group=GROUP, port=4711)


@pytest.mark.parametrize("dialect", list(Dialect))
def test_all_messages_have_the_header_of_the_sender(dialect: Dialect) -> None:
    made = messages(dialect=dialect)
    for data in (
        made.heartbeat(HEARTBEAT, 3),
        made.heartbeat(GOODBYE, 3),
        made.configuration(),
        made.nak([1, 2]),
        made.position(1, 2, 3, 4),
        made.request_to(OTHER, 1, 2),
        made.position_request_to(OTHER, 1, 2),
    ):
        header = made.wire.decode(data).header
        assert (header.address, header.sender_id) == (IDENTITY.address, IDENTITY.sender_id)
        assert header.start == IDENTITY.start(dialect)
        assert header.application_id == IDENTITY.application_id


def test_a_heartbeat_names_the_last_number() -> None:
    made = messages()
    heartbeat: Any = made.wire.decode(made.heartbeat(GOODBYE, 9))
    assert (heartbeat.header.kind, heartbeat.last_seq) == (GOODBYE, 9)
    assert (heartbeat.group, heartbeat.port) == (GROUP, 4711)
    assert heartbeat.start_ms == IDENTITY.start_ms


def test_an_announcement_names_the_intervals() -> None:
    made = messages(heartbeat_interval_ms=123, configuration_interval_ms=456, application="a")
    found: Any = made.wire.decode(made.configuration())
    assert (found.heartbeat_interval_ms, found.configuration_interval_ms) == (123, 456)
    assert (found.application, found.start) == ("a", IDENTITY.start_ms)


def test_requests_name_the_sender_they_are_addressed_to() -> None:
    made = messages()
    request: Any = made.wire.decode(made.request_to(OTHER, 3, 4))
    assert (request.target_id, request.target_start) == (5, 6)
    assert (request.first_seq, request.last_seq) == (3, 4)
    position: Any = made.wire.decode(made.position_request_to(OTHER, 3, 4))
    assert (position.target_id, position.target_start) == (5, 6)
    assert (position.seq, position.span_us) == (3, 4)


def test_data_of_a_gateway_is_marked_as_relayed() -> None:
    assert messages().data_header(WHOLE)[3] == WHOLE
    assert messages(is_gateway=True).data_header(WHOLE)[3] == WHOLE | RELAYED


def test_another_identity_is_used_from_then_on() -> None:
    made = messages()
    made.identity = replace(IDENTITY, sender_id=8)
    assert made.wire.decode(made.configuration()).header.sender_id == 8
