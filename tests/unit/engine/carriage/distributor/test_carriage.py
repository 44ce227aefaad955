"""Messages of the site between nodes: each is delivered once and in order."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.permissions import PermissionRule
from skerry.engine.admission.quotas import ClientLimits
from skerry.engine.carriage.distributor.carriage import SYSTEM_PORT, system_group
from skerry.engine.node import NodeCore
from skerry.ids import hash64
from skerry.objects.internal import internal_class
from skerry.protocol.access.header import Header, read_header
from skerry.protocol.distributor.events import (
    ConnectionClosed,
    Delivered,
    LossReason,
    SenderFound,
    SenderInfo,
    UpdatesLost,
)
from skerry.protocol.machine import Address


def numbers(site: Any, program: Any, name: str = "Tick") -> list[int]:
    cls = type(site.make(name))
    return [cls.decode(one.payload).number for one in program.heard if one.type_name == name]


def updates(site: Any, outsider: Any) -> list[tuple[str, bytes]]:
    return [update for event in site.events_of(outsider, Delivered) for update in event.updates]


def test_a_message_reaches_clients_of_all_nodes_once(site: Any) -> None:
    hosts = [site.add() for _ in range(3)]
    programs = [site.program(host, "p", "Tick") for host in hosts]
    site.publish(hosts[0], "p", site.make("Tick", number=1), site.make("Tick", number=2))
    site.publish(hosts[1], "p", site.make("Tick", number=3))
    for program in programs:
        assert numbers(site, program) == [1, 2, 3]
    assert [host.statistics().sent_count for host in hosts] == [2, 1, 0]
    assert [host.statistics().brought_count for host in hosts] == [1, 2, 3]


def test_the_first_messages_of_a_type_are_forwarded(site: Any) -> None:
    """Also if the description and the objects reach the node in one read."""
    first, second = site.add(), site.add()
    hearer = site.program(second, "q", "Tick")
    program = site.program(first, "p")
    for number in range(5):
        tick = site.make("Tick", number=number)
        first.programs["p"].client.send(
            _header(tick, first, site.now_ns), tick.encode(), tick.descriptor, 0.0
        )
    assert program.client.out_bytes > 0
    first.pump(site.now_ns)
    site.settle()
    assert numbers(site, hearer) == [0, 1, 2, 3, 4]


def _header(obj: Any, host: Any, now_ns: int) -> Any:
    header = Header(obj.descriptor.name)
    header.sent_time = host.core.wall_s(now_ns)
    header.attributes = int(obj.attributes)
    return header


def test_types_are_described_with_all_types_inside(site: Any) -> None:
    first, second = site.add(), site.add()
    hearer = site.program(second, "q", "Ping")
    site.program(first, "p")
    ping = site.make("Ping", who="me", number=7)
    site.publish(first, "p", ping)
    assert [type(ping).decode(one.payload) for one in hearer.heard] == [ping]
    assert hearer.described == ["Colour", "Place", "Ping"]


@pytest.mark.parametrize(
    ("name", "is_carried"), [("Tick", True), ("Far", True), ("Near", False), ("Kept", False)]
)
def test_only_messages_of_scope_site_are_forwarded(site: Any, name: str, is_carried: bool) -> None:
    first, second = site.add(), site.add()
    hearer = site.program(second, "q", name)
    at_home = site.program(first, "h", name)
    site.program(first, "p")
    site.publish(first, "p", site.make(name, number=1))
    assert numbers(site, hearer, name) == [1] * is_carried
    assert numbers(site, at_home, name) == [1]
    assert first.statistics().sent_count == is_carried


def test_messages_have_their_default_or_chosen_subjects(site: Any) -> None:
    first, second, outsider = site.add(), site.add(), site.outsider()
    hearer = site.program(second, "q", "Ping", "/odd/...")
    site.program(first, "p")
    site.publish(first, "p", site.make("Ping", who="a b", number=1))
    site.publish(first, "p", site.make("Ping", who="a", number=2), subject="/odd/one")
    site.publish(first, "p", site.make("Tick", number=3))
    heard = updates(site, outsider)
    assert [subject for subject, _ in heard] == [
        "/EnumDescriptorData/Colour",
        "/StructDescriptorData/Place",
        "/StructDescriptorData/Ping",
        "/Ping/a%20b",
        "/odd/one",
        "/StructDescriptorData/Tick",
        "/Tick",
    ]
    assert [one.subject for one in hearer.heard] == ["", "/odd/one"]


def test_data_is_a_header_and_an_object_as_in_a_frame(site: Any) -> None:
    host, outsider = site.add(), site.outsider()
    site.program(host, "p")
    tick = site.make("Tick", number=5)
    site.publish(host, "p", tick)
    _, data = updates(site, outsider)[-1]
    header, at = read_header(data, 0)
    assert header.type_name == "Tick"
    assert header.attributes == 2
    assert header.sent_time == 1_700_000_001.0
    assert type(tick).decode(data[at:]) == tick


def test_a_program_without_a_node_reaches_clients_of_nodes(site: Any) -> None:
    host, outsider = site.add(), site.outsider()
    hearer = site.program(host, "q", "Tick", "/odd")
    site.program(host, "p")
    site.publish(host, "p", site.make("Tick", number=0))
    _, data = updates(site, outsider)[-1]
    site.say(outsider, "/Tick", data)
    site.say(outsider, "/odd", data)
    assert [(one.subject, one.sender) for one in hearer.heard] == [
        ("", hearer.client.client_id + 1),
        ("", hearer.client.client_id - 1),
        ("/odd", hearer.client.client_id - 1),
    ]


def test_descriptions_are_repeated_while_a_type_is_in_use(site: Any) -> None:
    host, outsider = site.add(configuration_interval_ms=1000), site.outsider()
    site.program(host, "p")
    site.publish(host, "p", site.make("Tick", number=1), site.make("Ping", who="a", number=1))

    def described() -> list[str]:
        found = [s.rpartition("/")[2] for s, _ in updates(site, outsider) if "Descriptor" in s]
        site.events[id(outsider)].clear()
        return found

    assert described() == ["Tick", "Colour", "Place", "Ping"]
    site.run_ms(1000)
    assert described() == ["Tick", "Colour", "Place", "Ping"]
    for _ in range(5):
        site.run_ms(1000)
        site.publish(host, "p", site.make("Tick", number=2))
    assert len(described()) == 20
    site.run_ms(6000)
    described()
    site.run_ms(3000)
    assert described() == ["Tick"] * 3
    site.run_ms(60_000)
    described()
    site.run_ms(60_000)
    assert described() == []
    assert host.statistics().used_type_count == 0
    site.publish(host, "p", site.make("Tick", number=3))
    assert described() == ["Tick"]
    site.run_ms(1000)
    assert described() == ["Tick"]


def test_a_node_that_joins_late_receives_later_messages(site: Any) -> None:
    first = site.add()
    site.program(first, "p")
    site.publish(first, "p", site.make("Tick", number=1))
    late = site.add()
    hearer = site.program(late, "q", "Tick")
    site.publish(first, "p", site.make("Tick", number=2), site.make("Tick", number=3))
    # It waits for the description, which is soon announced again.
    assert numbers(site, hearer) == []
    assert late.statistics().waiting_count == 2
    site.run_ms(3000)
    assert numbers(site, hearer) == [2, 3]
    assert late.statistics().waiting_count == 0


def test_lost_datagrams_are_repaired(site: Any) -> None:
    first, second = site.add(), site.add()
    hearer = site.program(second, "q", "Tick")
    site.program(first, "p")
    site.publish(first, "p", site.make("Tick", number=0))
    site.drop = lambda _source, target, data: target is second and data[2] == 1
    for number in range(1, 5):
        site.publish(first, "p", site.make("Tick", number=number))
    site.drop = lambda *_: False
    site.publish(first, "p", site.make("Tick", number=5))
    site.run_ms(100)
    assert numbers(site, hearer) == [0, 1, 2, 3, 4, 5]


def test_losses_that_cannot_be_repaired_are_reported(site: Any) -> None:
    first, second = site.add(cache_bytes_max=0), site.add()
    site.program(first, "p")
    site.publish(first, "p", site.make("Tick", number=0))
    site.drop = lambda _source, target, data: target is second and data[2] == 1
    site.publish(first, "p", site.make("Tick", number=1))
    site.drop = lambda *_: False
    site.publish(first, "p", site.make("Tick", number=2))
    site.run_ms(1000)
    (lost,) = site.events_of(second, UpdatesLost)
    assert lost.stop_seq - lost.first_seq == 1


def test_clients_are_notified_of_losses(site: Any) -> None:
    """A loss is reported in order, and only to subscribers with extensions."""
    first, second = site.add(cache_bytes_max=0, application="other"), site.add()
    site.program(first, "p")
    notified: list[Any] = []
    for host in (first, second):
        watcher = site.program(host, "q", "Tick", "SkerryLoss")
        heard = watcher._arrived

        def note(header: Header, payload: bytes, heard: Any = heard, host: Any = host) -> None:
            heard(header, payload)
            if header.type_name == "SkerryLoss":
                notified.append((host, internal_class("SkerryLoss").decode(payload)))
            elif header.type_name == "Tick" and host is second:
                notified.append(type(site.make("Tick")).decode(payload).number)

        watcher._arrived = note
    # By now all have announced themselves.
    site.run_ms(3000)
    site.publish(first, "p", site.make("Tick", number=0))
    site.drop = lambda _source, target, data: target is second and data[2] == 1
    site.publish(first, "p", site.make("Tick", number=1))
    site.publish(first, "p", site.make("Tick", number=2))
    site.drop = lambda *_: False
    site.publish(first, "p", site.make("Tick", number=3))
    site.run_ms(1000)
    (lost,) = site.events_of(second, UpdatesLost)
    before, (host, loss), after = notified
    assert (before, host, after) == (0, second, 3)
    assert loss.sender == "10.0.0.1:61235"
    assert loss.application == "other"
    assert (loss.firstDatagram, loss.datagramCount) == (lost.first_seq, 2)
    assert (loss.reason, loss.isStopped) == ("nak", False)
    assert 0 < second.core.wall_s(site.now_ns) - loss.time < 1.1


def test_clients_are_notified_of_link_quality(site: Any) -> None:
    """Links from other senders are published to subscribers every ten seconds and at the end."""
    first, second = site.add(application="other"), site.add()
    watcher = site.program(second, "q", "SkerryLink")
    site.program(first, "p")
    notified: list[Any] = []
    heard = watcher._arrived

    def note(header: Header, payload: bytes) -> None:
        heard(header, payload)
        if header.type_name == "SkerryLink":
            notified.append(internal_class("SkerryLink").decode(payload))

    watcher._arrived = note
    site.run_ms(3000)
    site.publish(first, "p", site.make("Tick", number=0))
    site.drop = lambda _source, target, data: target is second and data[2] == 1
    site.publish(first, "p", site.make("Tick", number=1))
    site.drop = lambda *_: False
    site.publish(first, "p", site.make("Tick", number=2))
    site.run_ms(1000)
    assert notified == []
    site.run_ms(10_000)
    (link,) = notified
    assert (link.sender, link.receiver) == ("10.0.0.1:61235", "10.0.0.2:61236")
    assert (link.application, link.carrier) == ("other", "distributor")
    assert (link.retransmissions, link.requests, link.lost) == (1, 1, 0)
    assert link.datagrams >= 3
    assert (link.roundTrips, link.roundTripTime > 0) == (1, True)
    site.publish(first, "p", site.make("Tick", number=3))
    second.carrier.close(site.now_ns)
    site.run_ms(10)
    assert [item.retransmissions for item in notified[1:]] == [0]
    accepted = [row.accepted for row in first.core.statistics().types if row.name == "SkerryLink"]
    assert sum(accepted) == 0, "no client joined there"


@pytest.mark.parametrize("extensions", [True, False])
def test_a_node_without_extensions_publishes_no_losses(site: Any, extensions: bool) -> None:
    host = site.add(core=NodeCore(extensions=extensions))
    site.program(host, "p", "SkerryLoss")
    sender = SenderInfo(address="10.0.0.1", sender_id=1, start=2, application_id=3)
    # Numbers of datagrams wrap.
    lost = UpdatesLost(sender=sender, first_seq=2**32 - 1, stop_seq=1, reason=LossReason.NAK)
    host.core.publish_loss(lost, site.now_ns)
    accepted = [row.accepted for row in host.core.statistics().types if row.name == "SkerryLoss"]
    assert sum(accepted) == int(extensions)


def test_events_are_about_other_senders_and_not_the_carriage_itself(site: Any) -> None:
    first, second = site.add(), site.add()
    site.run_ms(3000)
    assert [event.sender.address for event in site.events_of(first, SenderFound)] == ["10.0.0.2"]
    assert [event.sender.address for event in site.events_of(second, SenderFound)] == ["10.0.0.1"]


def test_the_node_queues_messages_while_the_bandwidth_is_used_up(site: Any) -> None:
    host = site.add(bandwidth_kbit_max=250)
    other = site.add()
    hearer = site.program(other, "q", "Ping")
    site.program(host, "p")
    pings = [site.make("Ping", who="x" * 900, number=number) for number in range(40)]
    site.publish(host, "p", *pings)
    assert len(hearer.heard) < 20
    waiting = host.statistics().waiting_count
    assert 0 < waiting < 20
    site.run_ms(10_000)
    assert numbers(site, hearer, "Ping") == list(range(40))
    assert host.statistics().waiting_count == 0
    assert host.statistics().sent_count == 40


def test_a_carriage_that_is_disconnected_reconnects(site: Any) -> None:
    limits = ClientLimits(waiting_bytes_max=10_000)
    admission = Admission(AdmissionConfig(limits=limits), rng=_rng())
    host = site.add(core=NodeCore(admission=admission), bandwidth_kbit_max=250)
    other = site.add()
    hearer = site.program(other, "q", "Ping")
    site.program(host, "p")
    for number in range(40):
        site.publish(host, "p", site.make("Ping", who="x" * 900, number=number))
    assert host.statistics().cut_count == 1
    assert not host.statistics().is_connected
    site.run_ms(500)
    assert not host.statistics().is_connected
    site.run_ms(5000)
    assert host.statistics().is_connected
    before = len(hearer.heard)
    site.publish(host, "p", site.make("Ping", who="again", number=99))
    assert numbers(site, hearer, "Ping")[before:] == [99]
    # In the other direction, too.
    back = site.program(host, "r", "Tick")
    site.publish(other, "q", site.make("Tick", number=1))
    assert numbers(site, back) == [1]


def test_messages_are_counted_while_a_carriage_is_disconnected(site: Any) -> None:
    host, other = site.add(), site.add()
    site.program(other, "p")
    host.carrier.node_closed(site.now_ns)
    site.publish(other, "p", site.make("Tick", number=1))
    assert host.statistics().dropped["absent"] == 2
    host.carrier.node_said(b"of the former connection", site.now_ns)


def test_the_limits_of_one_client_do_not_apply_to_a_carriage(site: Any) -> None:
    limits = ClientLimits(updates_per_s_max=1.0)
    admission = Admission(AdmissionConfig(limits=limits), rng=_rng())
    host, other = site.add(core=NodeCore(admission=admission)), site.add()
    site.program(other, "p")
    site.publish(other, "p", *[site.make("Tick", number=number) for number in range(50)])
    assert host.statistics().brought_count == 50
    assert host.statistics().cut_count == 0


def test_permissions_apply_to_carriages(site: Any) -> None:
    rules = (
        PermissionRule(verbs=("all",), network="inside", subjects=("Tick",)),
        PermissionRule(verbs=("all",), client="p"),
    )
    core = NodeCore(admission=Admission(AdmissionConfig(permission=rules), rng=_rng()))
    host, other = site.add(core=core), site.add()
    hearer = site.program(other, "q", "Tick", "Ping")
    site.program(host, "p")
    ping, tick = site.make("Ping", who="a", number=1), site.make("Tick", number=1)
    site.publish(host, "p", ping, tick)
    assert [one.type_name for one in hearer.heard] == ["Tick"]
    at_home = host.programs["p"]
    at_home.client.join("Ping", 0.0)
    at_home.client.join("Tick", 0.0)
    site.publish(other, "q", ping, tick)
    host.pump(site.now_ns)
    assert [one.type_name for one in at_home.heard] == ["Tick"]
    assert host.statistics().dropped["refused"] == 1
    assert host.statistics().is_connected


def test_a_carriage_leaves_the_group(site: Any) -> None:
    host, other = site.add(), site.add()
    site.run_ms(100)
    host.carrier.close(site.now_ns)
    site.settle()
    assert 7 in [data[2] for data in site.sent]
    site.run_ms(2000)
    assert len(site.events_of(host, ConnectionClosed)) == 1
    assert other.statistics().group.sender_count == 1


def test_each_system_has_a_group_of_its_own() -> None:
    low = hash64("harbour") & 0xFFFF
    assert system_group("harbour") == Address(f"239.193.{low >> 8}.{low % 256}", SYSTEM_PORT)
    assert str(system_group("harbour")) == "datagram:239.193.104.190:4711"
    assert system_group("harbour") != system_group("fleet")


def _rng() -> Any:
    return Random(1)
