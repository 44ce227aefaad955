"""What services use of their node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skerry.engine.connections.service_host import ServiceHost
from skerry.engine.events import ClientRefused
from skerry.objects.internal import internal_class

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Harbour


def test_a_service_publishes_as_the_node_and_sees_its_clients(harbour: Harbour) -> None:
    host: ServiceHost = harbour.node.host
    guest = harbour.guest()
    assert not host.publisher.has_subscribers("SkerryConflict", "/x")
    guest.join("SkerryConflict")
    harbour.pump()
    assert host.publisher.has_subscribers("SkerryConflict", "/x")
    host.publisher.publish(internal_class("SkerryConflict")(typeName="Boat"), harbour.now_ns)
    harbour.pump()
    assert [obj.typeName for obj in guest.objects(internal_class("SkerryConflict"))] == ["Boat"]
    client = host.table.by_id.get(guest.client_id)
    assert client is not None
    assert client.name == "guest"


def test_a_service_refuses_and_disconnects(harbour: Harbour) -> None:
    host = harbour.node.host
    guest = harbour.guest()
    client = host.table.by_id.get(guest.client_id)
    assert client is not None
    host.refuse(client, "publish", "no", harbour.now_ns)
    (event,) = harbour.events(ClientRefused)
    assert (event.what, event.detail) == ("publish", "no")
    host.drop(client, harbour.now_ns, "why")
    harbour.pump()
    assert guest.is_cut
    assert harbour.node.statistics().ends == {"fault": 1}
