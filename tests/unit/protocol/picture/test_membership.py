"""The incarnation of a node."""

from __future__ import annotations

from random import Random

from skerry.protocol.exclusion import ExclusionReason
from skerry.protocol.node_types import NodeType
from skerry.protocol.picture.membership import IncarnationMembership

FOLLOWER = NodeType(name="follower", may_form_system=False)


def membership(node_type: NodeType, **fields: frozenset[int]) -> IncarnationMembership:
    return IncarnationMembership(node_type, Random(1), 0, **fields)


def test_a_node_forms_a_system_once_and_after_a_while(server: NodeType) -> None:
    mine = membership(server)
    assert not mine.may_form(99, 100)
    assert mine.may_form(100, 100)
    mine.form()
    assert mine.incarnation_id
    assert not mine.may_form(200, 100)
    assert not membership(FOLLOWER).may_form(200, 100)


def test_a_full_node_joins_the_first_system_it_meets_and_no_other(server: NodeType) -> None:
    mine = membership(server)
    assert mine.met(0, is_light=False) is False
    assert mine.met(7, is_light=True) is False
    assert mine.met(7, is_light=False) is True
    assert mine.incarnation_id == 7
    assert mine.met(7, is_light=False) is True
    assert mine.met(8, is_light=False) is ExclusionReason.INCARNATION


def test_a_stopped_system_is_not_joined(server: NodeType) -> None:
    mine = membership(server, black_list=frozenset({7}))
    assert mine.met(7, is_light=False) is ExclusionReason.BLACK_LISTED


def test_a_detached_light_node_joins_a_system_and_no_light_node(light: NodeType) -> None:
    mine = membership(light)
    mine.form(is_detached=True)
    assert mine.met(7, is_light=True) is False
    assert mine.met(8, is_light=False) is True
    assert not mine.is_detached
    assert mine.met(9, is_light=False) is ExclusionReason.INCARNATION
