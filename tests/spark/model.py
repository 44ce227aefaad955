"""What the tables should say, in plain Python: one object after the other, one step at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from skerry.codec.envelope import CREATE, REMOVE, SNAPSHOT

Values = dict[int, Any]
"""Fields that are set, by tag."""


@dataclass(frozen=True, kw_only=True)
class Said:
    """One update, as the model sees it."""

    key: bytes
    operation: int
    present: int
    values: Values
    node: int
    position: int
    time_ns: int


@dataclass(frozen=True, kw_only=True)
class State:
    """What an object looked like, from when to when."""

    key: bytes
    valid_from_ns: int
    valid_to_ns: int | None
    life: int
    node: int
    position: int
    values: Values = field(hash=False)


@dataclass(frozen=True, kw_only=True)
class World:
    """All that the tables of a type say."""

    history: list[State]
    latest: list[State]
    gone: dict[bytes, int]
    """Objects that are no more, and in which life they ended."""

    def live_at(self, instant_ns: int) -> dict[bytes, Values]:
        return {
            state.key: state.values
            for state in (*self.history, *self.latest)
            if state.valid_from_ns <= instant_ns
            and (state.valid_to_ns is None or instant_ns < state.valid_to_ns)
        }

    def changes_ns(self) -> list[int]:
        """The instants at which something begins or ends."""
        states = (*self.history, *self.latest)
        begun = {state.valid_from_ns for state in states}
        return sorted(begun | {s.valid_to_ns for s in states if s.valid_to_ns is not None})


def world_of(said: Iterable[Said]) -> World:
    """The states that result from updates, in any order and with repetitions."""
    placed = in_order(said)
    history: list[State] = []
    latest: list[State] = []
    gone: dict[bytes, int] = {}
    for key in {item.key for _, item in placed}:
        own = [(order_ns, item) for order_ns, item in placed if item.key == key]
        states, is_there, life = lived(key, own)
        latest += states[-1:] if is_there else []
        history += states[:-1] if is_there else states
        if not is_there:
            gone[key] = life
    return World(history=history, latest=latest, gone=gone)


def in_order(said: Iterable[Said]) -> list[tuple[int, Said]]:
    """Each update once, with its `order_ns`, sorted."""
    once: dict[tuple[int, int], Said] = {}
    for item in said:
        was = once.get((item.node, item.position))
        if was is None or was.operation == SNAPSHOT:
            once[item.node, item.position] = item
    latest: dict[int, int] = {}
    placed: list[tuple[int, Said]] = []
    for (node, _), item in sorted(once.items()):
        order_ns = max(item.time_ns, latest.get(node, item.time_ns))
        if item.operation != SNAPSHOT:
            latest[node] = order_ns
        placed.append((order_ns, item))
    return sorted(placed, key=lambda pair: (pair[0], pair[1].node, pair[1].position))


def lived(key: bytes, own: list[tuple[int, Said]]) -> tuple[list[State], bool, int]:
    """The states of one object, whether it is there at the end, and in which life."""
    states: list[State] = []
    values: Values = {}
    life = 0
    is_there = False
    for index, (order_ns, item) in enumerate(own):
        if item.operation == REMOVE:
            values, is_there = {}, False
            continue
        if item.operation == CREATE:
            life += 1
        if item.operation in (CREATE, SNAPSHOT) or not is_there:
            values = {}
        is_there = True
        values = dict(values)
        for tag in range(32):
            if item.present >> tag & 1:
                values.pop(tag, None)
                if tag in item.values:
                    values[tag] = item.values[tag]
        end_ns = own[index + 1][0] if index + 1 < len(own) else None
        states.append(
            State(
                key=key,
                valid_from_ns=order_ns,
                valid_to_ns=end_ns,
                life=life,
                node=item.node,
                position=item.position,
                values=values,
            )
        )
    return states, is_there, life
