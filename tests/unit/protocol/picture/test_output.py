"""What the picture sends, and sends again."""

from __future__ import annotations

from skerry.protocol.node_types import NodeTypes
from skerry.protocol.picture.bodies import (
    ELECTION,
    RAW,
    STATE,
    ElectionAction,
    ElectionMessage,
    write_election,
)
from skerry.protocol.picture.events import PictureAction, SendAll, SendOne
from skerry.protocol.picture.output import PictureOutput

MS = 1_000_000


def test_messages_go_to_all_types_or_to_the_full_ones(types: NodeTypes) -> None:
    output = PictureOutput(types)
    output.send_all(RAW, b"raw")
    output.send_all(STATE, b"state", is_full_only=True)
    sent = [(one.type_name, one.body) for one in output.take() if isinstance(one, SendAll)]
    assert sent == [("server", b"raw"), ("light", b"raw"), ("server", b"state")]
    assert output.take() == []


def test_messages_of_the_election_go_to_full_nodes_all_or_one(types: NodeTypes) -> None:
    output = PictureOutput(types)
    victory = ElectionMessage(action=ElectionAction.VICTORY, election_id=1)
    body = write_election(victory)
    output.send_election([(None, victory), (True, victory), (9, victory)])

    def to(name: str) -> PictureAction:
        return SendAll(type_name=name, data_type=ELECTION, body=body)

    one = SendOne(node=9, data_type=ELECTION, body=body)
    assert output.take() == [to("server"), to("server"), to("light"), one]


def test_what_found_no_room_is_sent_again_and_raw_statistics_as_they_are_then(
    types: NodeTypes,
) -> None:
    output = PictureOutput(types)
    for data_type in (RAW, ELECTION, STATE):
        output.not_sent(SendAll(type_name="server", data_type=data_type, body=b"old"), 0)
    assert output.deadline_ns() == 10 * MS
    output.advance(10 * MS, lambda: b"new")
    assert output.take() == [SendAll(type_name="server", data_type=ELECTION, body=b"old")]
    output.advance(100 * MS, lambda: b"new")
    assert output.take() == [SendAll(type_name="server", data_type=RAW, body=b"new")]
    assert output.deadline_ns() is None
