"""Objects of the node itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from skerry.engine.dispatch.node_publisher import NodePublisher
from skerry.engine.services.picture import lone_picture
from skerry.errors import SchemaMismatchError
from skerry.ids import NODE_CLIENT
from skerry.objects.internal import internal_class

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Harbour

CONFLICT = SchemaMismatchError(name="Boat", known="1", offered="2", difference="other keys")


def test_the_sender_of_published_objects_is_the_node(harbour: Harbour) -> None:
    guest = harbour.guest()
    guest.join("SkerryConflict")
    harbour.pump()
    publisher: NodePublisher = harbour.node._publisher
    publisher.publish_conflict(CONFLICT, harbour.now_ns)
    harbour.pump()
    (item,) = guest.items("SkerryConflict")
    assert item.header.sender == NODE_CLIENT
    assert internal_class("SkerryConflict").decode(item.payload).difference == "other keys"


def test_a_plain_host_publishes_no_own_types(make_harbour: Callable[..., Harbour]) -> None:
    harbour = make_harbour(extensions=False)
    publisher = harbour.node._publisher
    publisher.publish_conflict(CONFLICT, 0)
    seen = lone_picture(node=5, name="n")
    publisher.publish_picture(seen, 0, system="s", endpoints=())
    assert not publisher.is_wanted("SkerryLink")
    assert harbour.node.statistics().accepted_count == 0


def test_expensive_objects_are_wanted_while_a_client_subscribes(harbour: Harbour) -> None:
    guest = harbour.guest()
    assert not harbour.node.wants("SkerryRawStatistics")
    guest.join("SkerryRawStatistics")
    assert harbour.node.wants("SkerryRawStatistics")
    statistics = internal_class("SkerryRawStatistics")
    harbour.node.publish([statistics(observer=1, node=2)], harbour.now_ns)
    harbour.pump()
    (received,) = guest.messages("SkerryRawStatistics")
    assert (received.observer, received.node) == (1, 2)
