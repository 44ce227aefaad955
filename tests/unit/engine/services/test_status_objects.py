"""What a node publishes about itself and its clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import skerry
from skerry.limits import SELECT_SLICE_COUNT
from skerry.objects.internal import internal_class

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Guest, Harbour

TYPES = skerry.define_types(
    """
    struct Boat { 1: [key] uint32 id; 2: string name; }
    struct Car { 1: [key] uint32 id; }
    """
)
Boat, Car = TYPES.Boat, TYPES.Car
DotsClient: Any = internal_class("DotsClient")
Status: Any = internal_class("DotsDaemonStatus")
ClientStatistics: Any = internal_class("DotsClientStatistics")


def states(guest: Guest, client_id: int) -> list[tuple[str, str]]:
    notified = [obj for obj in guest.objects(DotsClient) if obj.id == client_id]
    return [(o.name, o.connectionState.label) for o in notified if o.connectionState is not None]


def client_ids(harbour: Harbour) -> list[int]:
    return [obj.id for obj in harbour.cached(DotsClient)]


def test_every_state_of_a_client_is_published(harbour: Harbour) -> None:
    watcher = harbour.guest("watcher")
    watcher.join("DotsClient")
    guest = harbour.guest("guest", wants_preload=True)
    guest.connection.finish_joins(0.0)
    harbour.pump()
    guest.goodbye()
    assert states(watcher, guest.client_id) == [
        ("<not_set>", "connecting"),
        ("guest", "early_subscribe"),
        ("guest", "connected"),
        ("guest", "closed"),
    ]
    header = watcher.items("DotsClient")[-1].header
    assert (header.sender, header.is_from_myself) == (1, 1)


def test_types_that_a_client_publishes_and_joins_are_published_when_they_change(
    harbour: Harbour,
) -> None:
    watcher, guest = harbour.guest("watcher"), harbour.guest("guest")
    watcher.join("DotsClient")
    guest.publish(Boat(id=1), Boat(id=2))
    guest.join("Car")
    guest.join("/fleet/*")
    harbour.wait(1)

    def notified() -> list[tuple[list[str], list[str]]]:
        objs = [o for o in watcher.objects(DotsClient) if o.id == guest.client_id]
        return [(o.publishedTypes, o.subscribedTypes) for o in objs if o.publishedTypes is not None]

    published = ["Boat"]
    assert notified() == [(published, ["/fleet/*", "Car"])]
    guest.publish(Boat(id=1))
    harbour.wait(1)
    assert len(notified()) == 1
    guest.leave("Car")
    guest.join("Boat")
    harbour.wait(1)
    assert notified()[1:] == [(published, ["/fleet/*", "Boat"])], "as many as before, but others"
    guest.leave("Boat")
    guest.open_view(Boat, 3, where="id > 1")
    harbour.wait(1)
    assert notified()[-1] == (published, ["/fleet/*", "Boat"]), "it still listens to boats"


def test_the_status_is_published_a_second_after_a_change_and_not_repeated(
    harbour: Harbour,
) -> None:
    watcher = harbour.guest("watcher")
    watcher.join("DotsDaemonStatus")
    assert harbour.node.deadline_ns() == 1_000_000_000
    harbour.wait(0.999)
    assert watcher.objects(Status) == []
    harbour.wait(0.001)
    (status,) = watcher.objects(Status)
    assert status.serverName == "skerry"
    assert status.startTime == 1_700_000_000.0
    assert status.received.packages == 2
    assert status.received.bytes > 0
    assert status.sent.packages > 0
    assert (status.cache.nrTypes, status.cache.size) == (1, 1)
    assert not status.is_set("resourceUsage")
    for _ in range(10):
        harbour.wait(10)
    assert len(watcher.objects(Status)) == 1
    assert harbour.node.deadline_ns() is None
    watcher.echo(1)
    harbour.wait(1)
    assert len(watcher.objects(Status)) == 2


def test_resource_usage_is_published_if_it_is_known(harbour: Harbour) -> None:
    watcher = harbour.guest("watcher")
    watcher.join("DotsDaemonStatus")
    harbour.node.set_usage({"maxRss": 5, "userCpuTime": 1.5})
    harbour.wait(1)
    (status,) = watcher.objects(Status)
    assert (status.resourceUsage.maxRss, status.resourceUsage.userCpuTime) == (5, 1.5)


def test_counters_of_clients_are_published_every_five_seconds_if_they_changed(
    harbour: Harbour,
) -> None:
    watcher, guest = harbour.guest("watcher"), harbour.guest("guest")
    watcher.join("DotsClientStatistics")
    guest.publish(Boat(id=1))
    harbour.wait(5)
    rows = {row.clientId: row for row in watcher.objects(ClientStatistics)}
    assert set(rows) == {watcher.client_id, guest.client_id}
    row = rows[guest.client_id]
    assert row.received.packages == 3, "an introduction, a description and an object"
    assert row.sent.packages == 2
    assert row.received.bytes > 0
    assert row.overflowDisconnected is False
    for _ in range(4):
        harbour.wait(5)
    assert len(watcher.objects(ClientStatistics)) == 2
    guest.publish(Boat(id=1))
    harbour.wait(5)
    assert [r.clientId for r in watcher.objects(ClientStatistics)][2:] == [guest.client_id]


@pytest.mark.parametrize("group", ["DotsClientStatistics", "/...", "/*/3"])
def test_counters_of_a_client_that_only_receives_are_published(
    harbour: Harbour, group: str
) -> None:
    watcher, reader, writer = (harbour.guest(name) for name in ("watcher", "reader", "writer"))
    watcher.join(group)
    watcher.join("DotsClientStatistics")
    reader.join("Boat")
    harbour.wait(5)
    before = len(watcher.objects(ClientStatistics))
    writer.publish(Boat(id=1))
    harbour.wait(5)
    news = {row.clientId: row for row in watcher.objects(ClientStatistics)[before:]}
    assert set(news) == {reader.client_id, writer.client_id}, "the watcher has sent nothing"
    assert news[reader.client_id].sent.packages > 0
    harbour.wait(5)
    harbour.wait(5)
    assert harbour.node.deadline_ns() is None


def test_disconnected_clients_stay_while_objects_refer_to_them(harbour: Harbour) -> None:
    maker, idler, stayer = (harbour.guest(name) for name in ("maker", "idler", "stayer"))
    stayer.join("DotsClient")
    stayer.join("DotsClientStatistics")
    maker.publish(Boat(id=1))
    harbour.wait(5)
    maker.vanish()
    idler.vanish()
    ids = [guest.client_id for guest in (maker, idler, stayer)]
    harbour.wait(9.999)
    assert client_ids(harbour) == ids
    harbour.wait(0.001)
    assert client_ids(harbour) == [ids[0], ids[2]]
    assert stayer.items("DotsClient")[-1].header.remove_obj == 1
    gone = stayer.items("DotsClientStatistics")[-1]
    assert gone.header.remove_obj == 1
    assert ClientStatistics.decode(gone.payload).clientId == ids[1]
    stayer.publish(Boat(id=1, name="mine"))
    harbour.wait(10)
    assert client_ids(harbour) == [ids[0], ids[2]], "it made the boat"
    stayer.remove(Boat(id=1))
    harbour.wait(10)
    assert client_ids(harbour) == [ids[2]]
    harbour.wait(10)
    assert harbour.node.deadline_ns() is None


def test_a_node_without_extensions_publishes_only_what_dots_hosts_do(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(extensions=False)
    guest = harbour.guest("guest")
    assert not guest.connection.has_filters
    guest.join("DotsClient")
    guest.join("DotsDaemonStatus")
    guest.publish(Boat(id=1))
    harbour.wait(20)
    assert guest.objects(Status) == []
    assert not any(obj.is_set("publishedTypes") for obj in guest.objects(DotsClient))
    harbour.check()


def test_the_status_of_many_clients_is_published_in_slices(harbour: Harbour) -> None:
    watcher = harbour.guest("watcher")
    guests = [harbour.guest(f"guest-{number}") for number in range(300)]
    for guest in guests:
        guest.connection.join("Car", 0.0)
    harbour.pump()
    watcher.join("DotsClient")
    watcher.join("SkerryLedger")
    published: list[int] = []
    usual, node = harbour.node.host.publisher.publish, harbour.node

    def publish(obj: Any, now_ns: int, is_remove: bool) -> None:
        published.append(1)
        usual(obj, now_ns, is_remove)

    node._status_objects._publish = publish
    turn_count = 0
    harbour.now_ns += 6_000_000_000
    while node._status_objects._work or not turn_count:
        published.clear()
        node.advance(harbour.now_ns)
        assert len(published) <= SELECT_SLICE_COUNT // 15 + 2
        turn_count += 1
    assert turn_count >= 900 // (SELECT_SLICE_COUNT // 15)
    harbour.pump()
    clients = {obj.id for obj in watcher.objects(DotsClient) if obj.subscribedTypes == ["Car"]}
    assert clients >= {guest.client_id for guest in guests}


def test_the_rows_of_the_ledger_are_made_in_slices(harbour: Harbour) -> None:
    count = 600
    text = "".join(f"struct Kind{n:03} {{ 1: [key] uint32 id; }}" for n in range(count))
    kinds = skerry.define_types(text)
    maker, watcher = harbour.guest("maker"), harbour.guest("watcher")
    for number in range(count):
        maker.publish(getattr(kinds, f"Kind{number:03}")(id=1))
    watcher.join("SkerryLedger")
    watcher.forget()
    harbour.now_ns += 1_000_000_000
    sizes: list[int] = []
    while len(watcher.messages("SkerryLedger")) < count:
        before = len(watcher.messages("SkerryLedger"))
        harbour.node.advance(harbour.now_ns)
        # What changes between two slices is in the rows that follow.
        maker.post(getattr(kinds, f"Kind{count - 1:03}")(id=len(sizes)))
        while harbour.carry():
            pass
        sizes.append(len(watcher.messages("SkerryLedger")) - before)
    assert max(sizes) <= SELECT_SLICE_COUNT // 15 + 1
    rows = {row.name: row for row in watcher.messages("SkerryLedger") if row.kind == "type"}
    assert rows["Kind000"].accepted == 1
    assert rows[f"Kind{count - 1:03}"].accepted >= len(sizes) - 1
    assert all(row.unexplained == 0 for row in rows.values())
