"""Parts of a link for its tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from skerry.protocol.link.peers import Peer
from skerry.protocol.machine import Address
from skerry.protocol.node_types import NodeType
from skerry.protocol.rtps.entities import Channel


@pytest.fixture
def make_peer() -> Callable[[int], Peer]:
    def make(node: int) -> Peer:
        return Peer(node, NodeType(), Address(f"10.0.0.{node}", 26661), Channel.DATA, node)

    return make


@pytest.fixture
def peer(make_peer: Callable[[int], Peer]) -> Peer:
    return make_peer(2)
