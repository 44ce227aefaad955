"""Checks of the system that a node belongs to: the other nodes, and the ways to and from them.

The node itself measures them: it sends datagrams to each other node while this program asks for the
results.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from time import monotonic, time
from typing import Any, Final, Self

from skerry.apps.doctor.results import CheckResult, failure, passed, warning
from skerry.apps.system_watch import (
    CLOCK_ALARM_S,
    LAG_ALARM_S,
    NodeLink,
    SystemWatch,
    has_picture,
    has_returned,
    node_name,
)
from skerry.client.api.picture import PictureNode
from skerry.client.api.sync import Space
from skerry.client.core.events import Event
from skerry.runtime.udp.datagrams import UDP_HEADS_V4, UDP_HEADS_V6
from skerry.schema.internal import PROBE_TYPE

_PROBES_S_MAX: Final = 4.5
"""Time for three rounds of probes: a node begins one each second while it has a subscriber."""
_ROUND_S: Final = 1.05
"""A little more than a round: results that arrive earlier are those of a round that began before
this program asked."""
_LINKS_S_MAX: Final = 2.5
_ORDERED: Final = "ordered"
_FIREWALL: Final = (
    "check the network between both computers, and permit UDP in both directions in their firewalls"
)
_ADVICE: Final = {
    "silent": "it ended without notice, or its computer or network is down; start it again",
    "unanswered": _FIREWALL,
    "slow": "look at its load, or raise lag_limit_ms and backlog_bytes_max of its node type",
    "stream": "its own log has the reason",
    "coordinator": "the log of the elected node has the reason",
    "incarnation": "it belongs to another run of the system; start it again",
    "black listed": "its incarnation is in the black list; start it again",
    "clock": "synchronise the clocks of both computers",
}
"""What to do about an excluded node, by the reason."""


def examine_system(space: Space) -> Iterable[CheckResult]:
    """Run all checks of the system of a node, and yield each result."""
    if not space.has_additions:
        return
    me = _this_node(space)
    if me is None:
        advice = (
            "it waits for its network interface or for other nodes; /readyz and its log say why"
        )
        yield warning("system", "the node has not joined its system yet", advice)
        return
    picture = space.picture
    if not me.control:
        yield passed("system", "the node belongs to no system")
        return
    if me.is_dead:
        advice = "it joins again with a new id, unless node.peers.rejoin is manual; see its log"
        yield failure("system", f"{picture.system} has excluded this node: {me.reason}", advice)
        return
    with SystemWatch(space) as watch, _ProbeWatch(space) as probes:
        others = [one for one in picture.nodes if one.id != me.id and not one.is_dead]
        yield _membership(space, me, others)
        answers = probes.wait({one.id for one in others})
        # Fails if it is the connection to this node that was lost.
        space.flush(timeout=_LINKS_S_MAX)
        watch.wait_links(_LINKS_S_MAX)
        seen = watch.snapshot(time())
        links = {one.node: one for one in seen.links if one.observer == me.id}
        for node in seen.nodes:
            if node.id == me.id:
                continue
            if not node.is_dead:
                yield from _alive(node, answers.get(node.id), links.get(node.id))
            elif node.reason != _ORDERED and not has_returned(node, seen.nodes):
                advice = _ADVICE.get(node.reason, "see `skerry picture` and its log")
                facts = f"is excluded: {node.reason or 'no reason given'}"
                yield warning(f"node {node_name(node)}", facts, advice)
        yield from _one_way(seen.nodes)


def _this_node(space: Space) -> PictureNode | None:
    """Return the node in its own picture; None before it has joined.

    A node that joins again has its last picture until then, in which its new id is not.
    """
    if not has_picture(space):
        return None
    picture = space.picture
    return next((one for one in picture.nodes if one.id == picture.node), None)


def _membership(space: Space, me: PictureNode, others: list[PictureNode]) -> CheckResult:
    picture = space.picture
    if picture.is_detached:
        advice = "no full node is reached: check the network; it attaches by itself"
        return warning("system", f"{picture.system}: the node is cut off from it", advice)
    if not others:
        return warning(
            "system",
            f"{picture.system}: no other node is alive",
            "if there should be some: same --system and domain, an interface that reaches them"
            " (--address), UDP permitted by firewalls, and --seed where multicast is not possible",
        )
    elected = next((node_name(one) for one in picture.nodes if one.id == picture.elected), "none")
    facts = f"{picture.system}: {len(others) + 1} nodes alive, elected {elected}"
    return passed("system", f"{facts}, this node is {node_name(me)} at {me.control}")


def _alive(node: PictureNode, probe: Any, link: NodeLink | None) -> Iterator[CheckResult]:
    """Whether a node answers, what the way to it permits, its clock, and whether it is behind."""
    name = node_name(node)
    if probe is None or probe.roundTripTime is None:
        heard = ""
        if link is not None and link.silence_s is not None:
            heard = f"; its last datagram arrived {link.silence_s:.1f} s ago"
        yield failure(f"node {name}", f"{node.control} does not answer{heard}", _FIREWALL)
    else:
        facts = [f"{node.control} answers in {probe.roundTripTime * 1e3:.1f} ms"]
        if probe.wholeRoundTripTime is not None:
            facts.append(f"datagrams of {probe.datagramBytes} bytes pass in one piece")
        if link is not None and link.clock_offset_s is not None:
            facts.append(f"clock {link.clock_offset_s:+.3f} s")
        yield passed(f"node {name}", ", ".join(facts))
        if probe.wholeRoundTripTime is None:
            yield _divided(name, probe)
    if link is None:
        return
    clock_s = link.clock_offset_s
    if clock_s is not None and abs(clock_s) > CLOCK_ALARM_S:
        advice = "synchronise the clocks of both computers: times of objects are not comparable"
        yield warning(f"clock of {name}", f"{clock_s:+.3f} s from this node", advice)
    if link.lag_s > LAG_ALARM_S:
        facts_text = f"{link.lag_s:.1f} s behind, {link.backlog_bytes} bytes wait for it"
        advice = "look at the load of its computer: it is excluded if that lasts"
        yield warning(f"lag of {name}", facts_text, advice)


def _divided(name: str, probe: Any) -> CheckResult:
    """A datagram of the configured size did not pass, and a small one did."""
    size = f"datagrams of {probe.datagramBytes} bytes"
    limit = probe.mtu - (UDP_HEADS_V6 if "[" in probe.control else UDP_HEADS_V4)
    if limit < probe.datagramBytes:
        facts = f"{size} do not fit the interface of this node, whose MTU is {probe.mtu} bytes"
        advice = f"set node.peers.link.datagram_bytes to {limit} or less, the same on all nodes"
    else:
        facts = f"{size} do not pass in one piece, although the interface of this node permits them"
        advice = (
            "set node.peers.link.datagram_bytes to the smallest MTU on the way minus"
            f" {UDP_HEADS_V4} ({UDP_HEADS_V6} with IPv6), the same on all nodes;"
            " `ping -M do -s SIZE HOST` finds it"
        )
    reason = "datagrams in pieces are lost if any piece is, and some firewalls drop them"
    return warning(f"MTU to {name}", facts, f"{advice}: {reason}")


def _one_way(nodes: Iterable[PictureNode]) -> Iterator[CheckResult]:
    names = {one.id: node_name(one) for one in nodes}
    for node in nodes:
        for other in node.unheard_by:
            far = names.get(other, f"{other % 2**64:016x}")
            facts = f"{far} receives nothing of {names[node.id]}, which receives {far}"
            advice = f"{_FIREWALL}; one of both nodes is excluded soon"
            yield failure("one-way link", facts, advice)


class _ProbeWatch:
    """Asks the node to probe the others, and collects what is answered."""

    def __init__(self, space: Space) -> None:
        self._changed = threading.Condition()
        self._best: dict[int, Any] = {}
        self._began_s = monotonic()
        self._subscription = space.subscribe(PROBE_TYPE, self._note)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._subscription.close()

    def wait(self, nodes: set[int]) -> dict[int, Any]:
        """The best result of each node, once all answer both probes, or after a timeout."""
        end_s = monotonic() + _PROBES_S_MAX
        with self._changed:
            while not all(_is_complete(self._best.get(node)) for node in nodes):
                left_s = end_s - monotonic()
                if left_s <= 0:
                    break
                self._changed.wait(left_s)
            return dict(self._best)

    def _note(self, event: Event[Any]) -> None:
        row = event.object
        if monotonic() - self._began_s < _ROUND_S:
            return
        with self._changed:
            before = self._best.get(row.node)
            if before is None or _count(row) >= _count(before):
                self._best[row.node] = row
            self._changed.notify_all()


def _count(row: Any) -> int:
    return (row.roundTripTime is not None) + (row.wholeRoundTripTime is not None)


def _is_complete(row: Any) -> bool:
    return row is not None and _count(row) == 2
