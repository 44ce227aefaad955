"""Objects of the node itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from skerry.engine.dispatch.node_publisher import NodePublisher
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
    publisher.publish_picture(0, system="s", name="n", endpoints=())
    assert harbour.node.statistics().accepted_count == 0


def test_each_picture_has_a_higher_number(harbour: Harbour) -> None:
    for _ in range(2):
        harbour.node.tell_picture(0, endpoints=["tcp://here:1"])
    ((_, entry),) = harbour.node.cache.objects("SkerryPicture")
    assert internal_class("SkerryPicture").decode(entry.payload).sequence == 2
