"""The node: what clients by WebSocket receive is written as text in turns, in order."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import skerry
from skerry.limits import ROUND_WORK_MAX
from skerry.objects.internal import internal_class
from skerry.protocol.access.json.wire import cut_messages
from skerry.protocol.access.json.writing import JsonNodeWire, JsonWriting
from skerry.protocol.machine import Address, CloseReason, Disconnect

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Guest, Harbour

Bulk: Any = skerry.define_types(
    "struct Bulk { 1: [key] uint32 id; 2: vector<float64> values; 3: string text; }"
).Bulk
LARGE = [0.25] * 40_000


class Web:
    """A client by WebSocket."""

    def __init__(self, harbour: Harbour, number: int = 1, extensions: int = 0) -> None:
        self.node = harbour.node
        self.address = Address("web", 900 + number, is_stream=True)
        self.node.open(self.address, JsonNodeWire(self.node.registry), 0)
        connect = {"clientName": "web", "preloadCache": False, "extensions": extensions}
        self.say("DotsMsgConnect", connect)

    def say(self, name: str, fields: dict[str, Any]) -> None:
        message = [{"typeName": name, "attributes": 0}, fields]
        self.node.receive(json.dumps(message).encode(), self.address, 0)

    def join(self, group: str) -> None:
        self.say("DotsMember", {"groupName": group, "event": 1})


class Driver:
    """Carries what the node sends, one turn after the other."""

    def __init__(self, harbour: Harbour) -> None:
        self.harbour = harbour
        self.heard: dict[Address, list[Any]] = {}
        self.cut: list[Address] = []

    def turn(self) -> None:
        for transmit in self.harbour.node.take_transmits():
            if transmit.destination.host != "web":
                guest = self.harbour.guests[transmit.destination]
                if not isinstance(transmit, Disconnect):
                    guest.hear(transmit.data)
            elif isinstance(transmit, Disconnect):
                self.cut.append(transmit.destination)
            else:
                heard = self.heard.setdefault(transmit.destination, [])
                heard += [json.loads(text) for text in cut_messages(transmit.data)]
        self.harbour.node.advance(0)

    def until_quiet(self) -> int:
        count = 0
        while True:
            self.turn()
            count += 1
            node = self.harbour.node
            if not node._connections.turn_queue.busy and not node._dispatcher.listed:
                self.turn()
                return count

    def objects(self, web: Web) -> list[int]:
        return [
            obj["id"] for header, obj in self.heard[web.address] if header["typeName"] == "Bulk"
        ]


def send(guest: Guest, obj: Any) -> None:
    """Publish without carrying anything else."""
    guest.post(obj)
    node = guest.harbour.node
    node.receive(guest.connection.take_output(), guest.address, 0)
    while node.is_held(guest.address):
        node.advance(0)


@pytest.fixture
def maker(harbour: Harbour) -> Guest:
    guest = harbour.guest("maker")
    guest.describe(Bulk)
    return guest


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The looks of all steps since it was cleared."""
    found: list[int] = []
    usual = JsonWriting.step

    def step(self: JsonWriting, look_count: int) -> tuple[bytes, int]:
        text, count = usual(self, look_count)
        found.append(count)
        return text, count

    monkeypatch.setattr(JsonWriting, "step", step)
    return found


def test_a_large_object_is_written_in_turns_and_in_order(
    harbour: Harbour, maker: Guest, looks: list[int]
) -> None:
    web, driver = Web(harbour), Driver(harbour)
    web.join("Bulk")
    driver.until_quiet()
    for number in range(4):
        send(maker, Bulk(id=number, values=LARGE if number == 1 else [1.0]))
    turn_count, waits = 0, []
    while driver.objects(web) != [0, 1, 2, 3]:
        looks.clear()
        echo = internal_class("DotsEcho")(request=True, identifier=turn_count)
        maker.connection.send_message(echo, 0.0)
        harbour.node.receive(maker.connection.take_output(), maker.address, 0)
        driver.turn()
        assert sum(looks) <= 2 * ROUND_WORK_MAX
        waits.append(len(maker.messages("DotsEcho")))
        turn_count += 1
    assert turn_count >= len(LARGE) // (2 * ROUND_WORK_MAX)
    # Another client is answered in every turn.
    assert waits == list(range(1, turn_count + 1))
    assert harbour.node.statistics().unexplained == 0


def test_many_clients_by_websocket_share_a_turn(
    harbour: Harbour, maker: Guest, looks: list[int]
) -> None:
    webs, driver = [Web(harbour, number) for number in range(50)], Driver(harbour)
    for web in webs:
        web.join("Bulk")
    driver.until_quiet()
    for number in range(20):
        send(maker, Bulk(id=number, values=[0.5] * 100))
    turn_count = 0
    while harbour.node._connections.turn_queue.busy or harbour.node._dispatcher.listed:
        looks.clear()
        driver.turn()
        assert sum(looks) <= 3 * ROUND_WORK_MAX
        turn_count += 1
    driver.turn()
    assert turn_count > 5
    assert all(driver.objects(web) == list(range(20)) for web in webs)


def test_what_is_being_written_counts_as_queued_and_expires_with_its_client(
    harbour: Harbour, maker: Guest
) -> None:
    web, driver = Web(harbour), Driver(harbour)
    web.join("Bulk")
    driver.until_quiet()
    send(maker, Bulk(id=1, values=LARGE))
    driver.turn()
    (row,) = [row for row in harbour.node.statistics().clients if row.name == "web"]
    assert (row.ledger.queued, row.ledger.delivered) == (1, 0)
    harbour.node.stream_closed(web.address, CloseReason.LOST, 0)
    driver.until_quiet()
    (bulk,) = [row for row in harbour.node.statistics().types if row.name == "Bulk"]
    assert (bulk.ledger.expired, bulk.ledger.unexplained) == (1, 0)


def test_nothing_is_written_while_the_transport_is_full(
    harbour: Harbour, maker: Guest, looks: list[int]
) -> None:
    web, driver = Web(harbour), Driver(harbour)
    web.join("Bulk")
    driver.until_quiet()
    send(maker, Bulk(id=1, values=LARGE))
    driver.turn()
    harbour.node.pause(web.address)
    looks.clear()
    driver.until_quiet()
    assert looks == []
    harbour.node.resume(web.address, 0)
    driver.until_quiet()
    assert driver.objects(web) == [1]


def test_a_client_that_is_dropped_receives_the_reason_and_not_what_was_being_written(
    harbour: Harbour, maker: Guest
) -> None:
    web, driver = Web(harbour), Driver(harbour)
    web.join("Bulk")
    driver.until_quiet()
    send(maker, Bulk(id=1, values=LARGE))
    driver.turn()
    web.say("Nobody", {})
    driver.turn()
    assert driver.objects(web) == []
    header, error = driver.heard[web.address][-1]
    assert header["typeName"] == "DotsMsgError"
    assert error["errorCode"] == 1
    assert driver.cut == [web.address]
    assert harbour.node.statistics().unexplained == 0


@pytest.mark.parametrize("extensions", [0, 1])
def test_what_is_too_large_as_text_ends_a_plain_guest_and_no_other(
    harbour: Harbour, maker: Guest, extensions: int
) -> None:
    web, driver = Web(harbour, extensions=extensions), Driver(harbour)
    harbour.node._table.by_address[web.address].connection.wire._bytes_max = 10_000  # type: ignore[attr-defined]
    web.join("Bulk")
    driver.until_quiet()
    send(maker, Bulk(id=1, values=LARGE))
    send(maker, Bulk(id=2))
    driver.until_quiet()
    names = [header["typeName"] for header, _ in driver.heard[web.address]]
    if extensions:
        assert "SkerryRefusal" in names
        assert driver.objects(web) == [2]
    else:
        assert driver.heard[web.address][-1][1]["errorText"].startswith("Bulk: ")
        assert driver.cut == [web.address]
    assert harbour.node.statistics().unexplained == 0


def test_a_connection_that_ends_with_an_unsendable_object_queued_ends_once(
    harbour: Harbour, maker: Guest
) -> None:
    web, driver = Web(harbour, extensions=0), Driver(harbour)
    web.join("Bulk")
    driver.until_quiet()
    harbour.node._table.by_address[web.address].connection.wire._bytes_max = 1_000  # type: ignore[attr-defined]
    send(maker, Bulk(id=1, values=LARGE[:400]))
    web.say("Nobody", {})
    driver.until_quiet()
    assert driver.cut == [web.address]
    assert harbour.node.statistics().ends == {"fault": 1}
    assert harbour.node.statistics().unexplained == 0
