"""The picture of a system that consists of one node, which is the elected one."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

from skerry.ids import hash64
from skerry.objects.base import Struct
from skerry.objects.internal import internal_class

__all__ = ["lone_picture", "picture_digest"]


def lone_picture(
    *,
    system: str,
    node_id: int,
    name: str,
    endpoints: Sequence[str],
    started_s: float,
    sequence: int,
) -> Struct:
    """The SkerryPicture of a node without peers."""
    node = internal_class("SkerryNode")(
        id=node_id,
        name=name,
        kind="full",
        endpoints=list(endpoints),
        isDead=False,
        generation=0,
        started=started_s,
    )
    picture: Struct = internal_class("SkerryPicture")(
        system=system,
        elected=node_id,
        election=node_id,
        sequence=sequence,
        isDetached=False,
        nodes=[node],
        digest=picture_digest([node]),
    )
    return picture


def picture_digest(nodes: Iterable[Any]) -> int:
    """A hash of the nodes of a system, independent of their order."""
    entries = sorted((node.id, bool(node.isDead), node.generation or 0) for node in nodes)
    return hash64(b"".join(struct.pack(">qBI", *entry) for entry in entries)) % 2**64
