"""Events in the making: updates of one sender together, others between them."""

from __future__ import annotations

from skerry.protocol.distributor.events import ConnectionClosed, Delivered, SenderInfo
from skerry.protocol.distributor.receiving.deliveries import Deliveries, DeliveryBatch
from skerry.protocol.distributor.receiving.updates import Updates

ONE = SenderInfo(address="10.0.0.1", sender_id=1, start=1, application_id=1)
TWO = SenderInfo(address="10.0.0.2", sender_id=1, start=1, application_id=1)
CLOSED = ConnectionClosed(group="239.192.7.1", port=4711)


def put(deliveries: Deliveries, sender: SenderInfo, *subjects: str, relayed: bool = False) -> None:
    parcel = deliveries.open(sender, relayed)
    parcel.batch.extend((subject, b"") for subject in subjects)
    deliveries.close(parcel)


def test_updates_of_one_sender_are_one_event() -> None:
    deliveries = Deliveries()
    put(deliveries, ONE, "/a")
    put(deliveries, ONE, "/b", "/c")
    (event,) = deliveries.take()
    assert isinstance(event, Delivered)
    assert event.updates == [("/a", b""), ("/b", b""), ("/c", b"")]
    assert deliveries.update_count == 3
    assert deliveries.take() == []


def test_another_sender_or_event_or_a_gateway_begins_a_new_one() -> None:
    deliveries = Deliveries()
    put(deliveries, ONE, "/a")
    put(deliveries, TWO, "/b")
    put(deliveries, ONE, "/c")
    deliveries.add(CLOSED)
    put(deliveries, ONE, "/d")
    put(deliveries, ONE, "/e", relayed=True)
    events = deliveries.take()
    assert [e.updates[0][0] if isinstance(e, Delivered) else "closed" for e in events] == [
        "/a",
        "/b",
        "/c",
        "closed",
        "/d",
        "/e",
    ]


def test_an_empty_batch_makes_no_event() -> None:
    deliveries = Deliveries()
    put(deliveries, ONE)
    assert deliveries.take() == []


def test_taken_batches_are_not_extended() -> None:
    deliveries = Deliveries()
    put(deliveries, ONE, "/a")
    (first,) = deliveries.take()
    put(deliveries, ONE, "/b")
    (second,) = deliveries.take()
    assert isinstance(first, Delivered)
    assert isinstance(second, Delivered)
    assert (len(first.updates), len(second.updates)) == (1, 1)


def test_batches_have_the_content_of_the_events() -> None:
    deliveries = Deliveries()
    deliveries.is_numbered = True
    put(deliveries, ONE, "/a", "/b", relayed=True)
    deliveries.add(CLOSED)
    parcel, closed = deliveries.take_batches()
    assert isinstance(parcel, DeliveryBatch)
    assert closed is CLOSED
    updates = Updates([("/a", b""), ("/b", b"")])
    assert parcel.event() == Delivered(sender=ONE, batch=updates, is_relayed=True, numbers=[])
    assert deliveries.update_count == 2
    assert deliveries.take() == []


def test_datagrams_are_numbered_on_request() -> None:
    deliveries = Deliveries()
    assert deliveries.open(ONE, False).numbers is None
    deliveries.is_numbered = True
    assert deliveries.open(ONE, False).numbers == []
