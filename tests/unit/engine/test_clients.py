"""A client as the node knows it: its agenda, and when its objects need no look."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

import skerry
from skerry.engine.admission.admission import (
    INSIDE,
    Admission,
    AdmissionConfig,
    ClientLimits,
    PermissionRule,
)
from skerry.engine.clients import OWED_COUNT_MAX, Client, Later, do_at_once
from skerry.engine.dispatch.client_queue import ClientQueue
from skerry.objects.internal import internal_class
from skerry.protocol.access.connection import ConnectionStage
from skerry.protocol.access.server import ServerConnection
from skerry.protocol.access.wire import Wire
from skerry.protocol.machine import Address

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Guest, Harbour

Boat = skerry.define_types("struct Boat { 1: [key] uint32 id; 2: string name; }").Boat


def make() -> Client:
    lane = ClientQueue(7, Wire(), [])
    connection = ServerConnection(Wire(), client_id=7, outgoing=lane)
    address = Address("somewhere", 1, is_stream=True)
    return Client(address, connection, lane, origin=INSIDE, limits=ClientLimits(), opened_ns=0)


class Pieces:
    """A task of some pieces."""

    def __init__(self, count: int) -> None:
        self.left = count

    def step(self, now_s: float) -> bool:
        self.left -= 1
        return self.left == 0


def test_a_client_has_the_number_of_its_lane_and_the_name_it_gave() -> None:
    client = make()
    assert (client.client_id, client.name) == (7, "<not_set>")
    client.connection.name = "pilot"
    assert client.name == "pilot"


def test_a_client_is_in_once_it_was_let_in_until_it_goes() -> None:
    client = make()
    stages = [
        ConnectionStage.CONNECTING,
        ConnectionStage.EARLY_SUBSCRIBE,
        ConnectionStage.CONNECTED,
        ConnectionStage.CLOSED,
    ]
    found = []
    for stage in stages:
        client.connection.stage = stage
        found.append(client.is_in)
    assert found == [False, True, True, False]


def known(harbour: Harbour, guest: Guest) -> Client:
    return harbour.node._clients[guest.address]


def test_only_who_may_do_all_and_is_not_measured_is_free(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour()
    assert known(harbour, harbour.guest()).is_free
    assert not known(harbour, harbour.stranger("silent")).is_free
    rules = (PermissionRule(verbs=("publish", "subscribe")),)
    for config in (
        AdmissionConfig(permission=rules),
        AdmissionConfig(limits=ClientLimits(updates_per_s_max=5)),
        AdmissionConfig(limits=ClientLimits(bytes_per_s_max=5)),
    ):
        harbour = make_harbour(admission=Admission(config, rng=Random(1)))
        assert not known(harbour, harbour.guest()).is_free


def test_work_is_done_at_once_or_behind_what_is_on_the_agenda() -> None:
    client = make()
    done: list[tuple[str, float]] = []
    client.when_caught_up(lambda now_s: done.append(("first", now_s)), 1.0)
    assert done == [("first", 1.0)]
    client.agenda.append(Pieces(2))
    client.when_caught_up(lambda now_s: done.append(("second", now_s)), 2.0)
    assert len(done) == 1
    assert [type(task) for task in client.agenda] == [Pieces, do_at_once]
    assert client.agenda[1].step(3.0)
    assert done[1:] == [("second", 3.0)]


def test_what_is_made_later_is_made_when_its_turn_comes_and_once() -> None:
    made: list[Pieces] = []

    def make_pieces() -> Pieces:
        made.append(Pieces(3))
        return made[-1]

    later = Later(make_pieces)
    assert made == []
    assert [later.step(0.0) for _ in range(3)] == [False, False, True]
    assert len(made) == 1


def test_what_there_is_nothing_to_do_for_any_more_is_done() -> None:
    assert Later(lambda: None).step(0.0)


def test_a_client_that_asks_without_end_and_takes_no_answer_is_cut(harbour: Harbour) -> None:
    guest, other = harbour.guest("guest"), harbour.guest("other")
    other.publish(*(Boat(id=number, name="x" * 1000) for number in range(200)))
    guest.join("DotsClient")
    guest.pause()
    guest.connection.join("Boat", 0.0)
    for number in range(OWED_COUNT_MAX):
        echo = internal_class("DotsEcho")(request=True, sequenceNumber=number)
        guest.connection.send_message(echo, 0.0)
    harbour.pump()
    assert harbour.node.statistics().ends == {}
    guest.echo(0)
    assert guest.is_cut
    assert harbour.node.statistics().ends["slow"] == 1
    assert not other.is_cut


def test_what_a_client_asks_may_not_take_more_memory_than_what_it_is_told(
    make_harbour: Callable[..., Harbour],
) -> None:
    limits = ClientLimits(waiting_bytes_max=1000)
    harbour = make_harbour(admission=Admission(AdmissionConfig(limits=limits)))
    guest = harbour.guest()
    guest.publish(Boat(id=1, name="a"))
    guest.pause()
    guest.connection.join("Boat", 0.0)
    harbour.pump()
    for _ in range(2):
        guest.send("DotsEcho", request=True, data="x" * 600)
    assert guest.is_cut
    harbour.check()


def test_a_client_that_joins_and_leaves_without_end_is_cut_too(
    make_harbour: Callable[..., Harbour],
) -> None:
    limits = ClientLimits(join_count_max=5, view_count_max=5)
    harbour = make_harbour(admission=Admission(AdmissionConfig(limits=limits)))
    guest = harbour.guest()
    guest.publish(Boat(id=1, name="a"))
    guest.pause()
    for _ in range(OWED_COUNT_MAX + 10):
        guest.connection.join("Boat", 0.0)
    harbour.pump()
    assert harbour.node.statistics().ends == {}
    guest.join("Boat")
    assert guest.is_cut
    harbour.check()
