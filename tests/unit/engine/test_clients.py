"""A client as the node knows it: its agenda, and when its objects need no look."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

import skerry
from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.origins import INSIDE
from skerry.engine.admission.permissions import PermissionRule
from skerry.engine.admission.quotas import ClientLimits
from skerry.engine.clients import OWED_COUNT_MAX, Client, Later, do_at_once
from skerry.engine.dispatch.client_queue import ClientQueue
from skerry.objects.internal import internal_class
from skerry.protocol.access.server import ConnectAsked, ServerConnection
from skerry.protocol.access.wire import Wire
from skerry.protocol.machine import Address

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Guest, Harbour

Boat = skerry.define_types("struct Boat { 1: [key] uint32 id; 2: string name; }").Boat


def make() -> Client:
    queue = ClientQueue(7, Wire(), [])
    connection = ServerConnection(Wire(), client_id=7, outgoing=queue)
    address = Address("somewhere", 1, is_stream=True)
    return Client(address, connection, queue, origin=INSIDE, limits=ClientLimits(), opened_ns=0)


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


def test_a_client_is_in_from_its_acceptance_to_its_disconnection() -> None:
    assert not make().is_in
    for wants_preload in (True, False):
        client = make()
        asked = ConnectAsked(
            name="c", wants_preload=wants_preload, response="", cnonce="", extensions=0
        )
        client.connection.accept(asked, 0.0)
        assert is_in(client)
        client.connection.close()
        assert not is_in(client)


def is_in(client: Client) -> bool:
    return client.is_in


def known(harbour: Harbour, guest: Guest) -> Client:
    return harbour.node._table.by_address[guest.address]


def test_only_a_client_with_all_rights_and_no_meter_is_free(
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


def test_a_later_task_is_created_once_when_its_turn_comes() -> None:
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


def test_waiting_requests_of_a_client_are_limited_like_its_queue(
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
