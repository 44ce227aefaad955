"""The picture of a system of one."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skerry.engine.services.picture import picture_digest
from skerry.objects.internal import internal_class

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Harbour

Node: Any = internal_class("SkerryNode")


def test_a_node_alone_is_a_system_of_one(make_harbour: Callable[..., Harbour]) -> None:
    harbour = make_harbour(name="north", system="fleet", node_id=77)
    guest = harbour.guest()
    places = ["tcp://127.0.0.1:11235"]
    harbour.node.tell_picture(harbour.now_ns, endpoints=places)
    guest.join("SkerryPicture")
    (picture,) = guest.messages("SkerryPicture")
    assert (picture.system, picture.elected, picture.election) == ("fleet", 77, 77)
    assert (picture.sequence, picture.isDetached) == (1, False)
    (node,) = picture.nodes
    assert (node.id, node.name, node.kind, node.endpoints) == (77, "north", "full", places)
    assert (node.isDead, node.generation) == (False, 0)
    assert node.started == 1_700_000_000.0
    harbour.check()


def test_each_change_has_a_number(make_harbour: Callable[..., Harbour]) -> None:
    harbour = make_harbour(node_id=77)
    guest = harbour.guest()
    guest.join("SkerryPicture")
    for place in ("a", "b"):
        harbour.node.tell_picture(harbour.now_ns, endpoints=[place])
    harbour.pump()
    pictures = guest.messages("SkerryPicture")
    assert [p.sequence for p in pictures] == [1, 2]
    assert pictures[0].digest == pictures[1].digest


def test_a_node_without_extensions_publishes_no_picture(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(extensions=False)
    harbour.node.tell_picture(harbour.now_ns, endpoints=[])
    assert harbour.cached(internal_class("SkerryPicture")) == []


def test_the_digest_does_not_depend_on_the_order_of_nodes() -> None:
    one, two = Node(id=-5, isDead=True, generation=3), Node(id=9, isDead=False, generation=0)
    wanted = hashlib.sha256(struct.pack(">qBIqBI", -5, 1, 3, 9, 0, 0)).digest()[:8]
    assert picture_digest([one, two]) == picture_digest([two, one])
    assert picture_digest([two, one]) == int.from_bytes(wanted, "big")
    assert picture_digest([one, two]) != picture_digest([Node(id=-5, generation=3), two])


def test_only_a_node_publishes_a_picture(harbour: Harbour) -> None:
    guest = harbour.guest()
    guest.send("SkerryPicture")
    why = "SkerryPicture: only the node publishes and removes its objects"
    assert guest.refusals() == [("publish", why)]


def test_clients_cannot_clear_the_picture(harbour: Harbour) -> None:
    harbour.node.tell_picture(0, endpoints=["tcp://127.0.0.1:1"])
    guest = harbour.guest()
    guest.join("SkerryPicture")
    guest.send("DotsClearCache", typeNames=["SkerryPicture"])
    assert [what for what, _ in guest.refusals()] == ["clear"]
    assert len(harbour.cached(internal_class("SkerryPicture"))) == 1
    assert all(item.header.remove_obj != 1 for item in guest.items("SkerryPicture"))
