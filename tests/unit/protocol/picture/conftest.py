"""Nodes and tables for the tests of the picture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from skerry.protocol.machine import Address
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.protocol.picture.entries import NodeEntry
from skerry.protocol.picture.raw_table import RawTable

SERVER = NodeType(name="server")
LIGHT = NodeType(name="light", light=True, may_form_system=False)
TYPES = NodeTypes([SERVER, LIGHT])


@pytest.fixture
def entry() -> Callable[..., NodeEntry]:
    def make(node: int, node_type: NodeType = SERVER, **fields: Any) -> NodeEntry:
        control, data = Address(f"10.0.0.{node % 250}", 1), Address(f"10.0.0.{node % 250}", 2)
        usual = {"name": f"n{node}", "type_id": node_type.id, "control": control, "data": data}
        return NodeEntry(node=node, **{**usual, **fields})

    return make


@pytest.fixture
def light() -> NodeType:
    return LIGHT


@pytest.fixture
def server() -> NodeType:
    return SERVER


@pytest.fixture
def types() -> NodeTypes:
    return TYPES


@pytest.fixture
def table(entry: Callable[..., NodeEntry]) -> RawTable:
    """The table of node 5, which knows the full nodes 3 and 7."""
    made = RawTable(entry(5), SERVER, TYPES)
    for node in (3, 7):
        made.add(entry(node), SERVER, 0)
    return made
