"""Events are values that a trace can show."""

from __future__ import annotations

import json

from skerry.protocol.distributor.events import (
    Delivered,
    LossReason,
    SenderInfo,
    UpdatesLost,
)
from skerry.protocol.distributor.receiving.updates import Updates
from skerry.tracing import trace_line

SENDER = SenderInfo(address="10.0.0.1", sender_id=1, start=2, application_id=3)


def test_a_loss_names_its_sender_and_its_range() -> None:
    event = UpdatesLost(sender=SENDER, first_seq=3, stop_seq=5, reason=LossReason.NAK)
    row = json.loads(trace_line(event))
    assert (row["first_seq"], row["stop_seq"], row["reason"]) == (3, 5, "nak")
    assert row["sender"]["address"] == "10.0.0.1"


def test_updates_can_be_shown() -> None:
    event = Delivered(sender=SENDER, batch=Updates([("/a", b"\x01")]))
    assert json.loads(trace_line(event))["batch"] == [["/a", "01"]]
