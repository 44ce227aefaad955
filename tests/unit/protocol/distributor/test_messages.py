"""Messages as values: the numbers on the wire."""

from __future__ import annotations

from skerry.protocol.distributor import messages
from skerry.protocol.distributor.messages import DatagramHeader, UpdateMessage


def test_kinds_and_flags_have_their_numbers() -> None:
    assert (messages.UPDATE, messages.RETRANSMISSION, messages.HEARTBEAT) == (1, 2, 3)
    assert (messages.CONFIGURATION, messages.REQUEST, messages.NAK, messages.GOODBYE) == (
        4,
        5,
        6,
        7,
    )
    assert (messages.START, messages.MORE, messages.END, messages.RELAYED) == (1, 2, 4, 8)
    assert messages.WHOLE == 5


def test_messages_are_values() -> None:
    header = DatagramHeader(kind=1, address=b"\x7f\0\0\1", sender_id=1, start=2, application_id=3)
    first = UpdateMessage(header=header, seq=1, count=0, body=b"")
    assert first == UpdateMessage(header=header, seq=1, count=0, body=b"")
    assert hash(first) == hash(UpdateMessage(header=header, seq=1, count=0, body=b""))
    assert header.flags == messages.WHOLE


def test_datagrams_have_the_reasons_that_metrics_name() -> None:
    assert [reason.value for reason in messages.DATAGRAM_DROPS] == [
        "short",
        "version",
        "kind",
        "body",
        "updates",
        "pieces",
        "subject",
        "duplicate",
        "jump",
        "overflow",
        "senders",
        "dialect",
        "seal",
        "fake",
    ]
