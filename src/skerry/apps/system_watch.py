"""The nodes of a system and the links between them, from what a node publishes about them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from skerry.client.api.picture import Picture, PictureNode
from skerry.client.api.sync import Space
from skerry.client.core.events import Event
from skerry.closing import Closing
from skerry.errors import Refused, RequestTimedOut, SkerryError
from skerry.schema.internal import RAW_STATISTICS_TYPE

CLOCK_ALARM_S: Final = 1.0
"""Clocks that differ by more are a problem."""
LAG_ALARM_S: Final = 0.5
"""A node that is behind by more is a problem."""
_LINK_S_MAX: Final = 3.5
"""Age above which a link is outdated, since links are published each second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLink:
    """What one node observes of another one."""

    observer: int
    node: int
    observer_name: str
    node_name: str
    is_dead: bool
    """Whether the observer has excluded the node."""
    reason: str
    control_received_count: int
    control_duplicate_count: int
    control_retransmission_count: int
    data_received_count: int
    data_duplicate_count: int
    data_retransmission_count: int
    round_trip_s: float | None
    """None before it was measured."""
    lag_s: float
    """How long the node has been behind the others."""
    backlog_bytes: int
    """Bytes that wait for it."""
    clock_offset_s: float | None
    """By how much its clock is ahead; only of the node that publishes."""
    silence_s: float | None
    """Time since its last datagram; only of the node that publishes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemSnapshot:
    """A system at one instant, as one of its nodes reports it."""

    system: str
    node: int
    """The node that reports."""
    incarnation: int
    elected: int
    election: int
    sequence: int
    is_detached: bool
    digest: int
    nodes: tuple[PictureNode, ...]
    links: tuple[NodeLink, ...]
    """Empty where only the picture was asked for."""

    def problems(self) -> list[str]:
        """What is wrong, in words; empty if nothing is."""
        names = {one.id: node_name(one) for one in self.nodes}
        found = [
            f"{names[one.id]} is excluded: {one.reason}"
            for one in self.nodes
            if one.is_dead
            and one.reason not in ("", "ordered")
            and not has_returned(one, self.nodes)
        ]
        alive = Counter(one.name for one in self.nodes if not one.is_dead and one.name)
        found += [
            f"{count} nodes have the name {name}" for name, count in alive.items() if count > 1
        ]
        if self.is_detached:
            found.append("the node is cut off from its system")
        for one in self.nodes:
            if not one.is_dead and abs(one.clock_offset_s) > CLOCK_ALARM_S:
                found.append(f"the clock of {names[one.id]} differs by {one.clock_offset_s:+.1f} s")
            for other in one.unheard_by:
                far = names.get(other, f"{other % 2**64:016x}")
                found.append(f"one-way link: {far} receives nothing of {names[one.id]}")
        found += [
            f"{link.node_name} is {link.lag_s:.1f} s behind what {link.observer_name} sends"
            for link in self.links
            if not link.is_dead and link.lag_s > LAG_ALARM_S
        ]
        return list(dict.fromkeys(found))  # A node may have been excluded several times.


def has_picture(space: Space) -> bool:
    """Whether the node has a picture of its system: not before it has joined, and not if it is no
    skerry node or refuses it."""
    if not space.has_additions:
        return False
    pictures = space.container("SkerryPicture")
    try:
        space.flush()
        return len(pictures) > 0
    except Refused:
        return False
    finally:
        pictures.close()


class SystemWatch(Closing):
    """Follows the system of a node, over a space that it does not close."""

    def __init__(self, space: Space, *, has_links: bool = True) -> None:
        """Without `has_links`, only the picture is followed. Waits for the first picture."""
        self._space = space
        self._picture = _awaited_picture(space)
        self._lock = threading.Lock()
        self._links: dict[tuple[int, int], tuple[float, NodeLink]] = {}
        self._has_first = threading.Event()
        self._subscription = space.subscribe(RAW_STATISTICS_TYPE, self._note) if has_links else None

    def close(self) -> None:
        if self._subscription is not None:
            self._subscription.close()

    @property
    def picture(self) -> Picture:
        return self._picture

    def wait_links(self, timeout_s: float) -> None:
        """Wait until the node has published all links once; a node without others has none."""
        if self._subscription is None or sum(bool(one.control) for one in self._picture.nodes) < 2:
            return
        if self._has_first.wait(timeout_s):
            # All links were sent together, so the answer follows the last one.
            self._space.flush(timeout=timeout_s)

    def snapshot(self, now_s: float) -> SystemSnapshot:
        """The system now; `now_s` is wall time."""
        with self._lock:
            outdated = [key for key, (at_s, _) in self._links.items() if now_s - at_s > _LINK_S_MAX]
            for key in outdated:
                del self._links[key]
            links = [link for _, link in self._links.values()]
        links.sort(key=lambda one: (one.observer_name, one.observer, one.node_name, one.node))
        return system_snapshot(self._picture, links)

    def _note(self, event: Event[Any]) -> None:
        link = _link(event.object)
        with self._lock:
            self._links[link.observer, link.node] = event.info.received, link
        self._has_first.set()


def _awaited_picture(space: Space) -> Picture:
    try:
        return space.picture
    except RequestTimedOut:
        space.flush()  # Which fails if it is the node that does not answer.
        missing = SkerryError(f"node {space.node_name} has not joined its system yet: no picture")
        missing.hint = "/readyz and the log of the node say what it waits for"
        raise missing from None


def system_snapshot(picture: Picture, links: Sequence[NodeLink] = ()) -> SystemSnapshot:
    nodes = sorted(picture.nodes, key=lambda one: (one.is_dead, one.name, one.id))
    return SystemSnapshot(
        system=picture.system,
        node=picture.node,
        incarnation=picture.incarnation,
        elected=picture.elected,
        election=picture.election,
        sequence=picture.sequence,
        is_detached=picture.is_detached,
        digest=picture.digest,
        nodes=tuple(nodes),
        links=tuple(links),
    )


def node_name(node: PictureNode) -> str:
    """The name of a node, or its id if it has none."""
    return node.name or f"{node.id % 2**64:016x}"


def has_returned(node: PictureNode, nodes: Iterable[PictureNode]) -> bool:
    """Whether a dead node is alive with another id: one of its name is, on the same host."""
    return any(
        not one.is_dead and one.name == node.name and _host(one.control) == _host(node.control)
        for one in nodes
    )


def _host(control: str) -> str:
    return control.rpartition(":")[0]


def _link(row: Any) -> NodeLink:
    return NodeLink(
        observer=row.observer,
        node=row.node,
        observer_name=row.observerName or f"{row.observer % 2**64:016x}",
        node_name=row.nodeName or f"{row.node % 2**64:016x}",
        is_dead=bool(row.isDead),
        reason=row.reason or "",
        control_received_count=row.controlReceived or 0,
        control_duplicate_count=row.controlDuplicates or 0,
        control_retransmission_count=row.controlRetransmissions or 0,
        data_received_count=row.dataReceived or 0,
        data_duplicate_count=row.dataDuplicates or 0,
        data_retransmission_count=row.dataRetransmissions or 0,
        round_trip_s=row.roundTripTime or None,
        lag_s=row.lag or 0.0,
        backlog_bytes=row.backlogBytes or 0,
        clock_offset_s=row.clockOffset,
        silence_s=row.silence,
    )
