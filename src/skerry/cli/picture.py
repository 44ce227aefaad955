"""`skerry picture`: the nodes of the system, as one node sees them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from time import monotonic, sleep, time
from typing import TYPE_CHECKING, Any, Final

import click

from skerry.cli.node_options import NodeChoice, node_options
from skerry.cli.output import Output, current_output, json_option, make_table
from skerry.cli.stopping import Stop, stop_on_signals
from skerry.errors import SkerryError
from skerry.json_values import visible

if TYPE_CHECKING:
    from rich.console import RenderableType

    from skerry.apps.system_watch import NodeLink, SystemSnapshot, SystemWatch
    from skerry.client.api.picture import PictureNode
    from skerry.client.api.sync import Space
    from skerry.client.core.states import StateChanged

_LINKS_S_MAX: Final = 3.0
"""Time that the first output waits for the links, which a node publishes each second."""
_LOOK_S: Final = 0.1
"""Interval at which a stop request and changes are polled."""
_REPEAT_S: Final = 1.0
"""Interval at which `--watch` prints links."""
_FORGET_S_MAX: Final = 5.0
"""Time that `forget` waits until the nodes are gone from the picture."""
_ID: Final = re.compile("[0-9a-fA-F]{16}")


@click.group(invoke_without_command=True)
@click.option(
    "--raw",
    "is_raw",
    is_flag=True,
    help="Show what each node observes of each other one: datagrams, repetitions, round-trip time,"
    " lag. With --json, one line for each pair.",
)
@click.option("--watch", "is_watching", is_flag=True, help="Show each change until Ctrl-C.")
@node_options
@json_option
@click.pass_context
def picture(
    context: click.Context, /, *, is_raw: bool, is_watching: bool, choice: NodeChoice, as_json: bool
) -> None:
    """Show the picture of the system: its nodes, their states and links, and what is wrong.

    All nodes of a system show the same nodes and the same digest. Clock differences, and silence in
    --raw, are those that the node measures which answers. A node without a system name is a system
    of one node.

    \b
    Examples:
      skerry picture
      skerry picture --node tcp://10.1.2.3 --json
      skerry picture --raw --watch
      skerry picture forget old-bridge
    """
    if context.invoked_subcommand is not None:
        if is_raw or is_watching or as_json:
            raise click.UsageError("--raw, --watch and --json are for `skerry picture` alone")
        return
    from skerry.apps.system_watch import SystemWatch, has_picture

    output = current_output()
    with stop_on_signals() as stop, choice.connect_or_fail("skerry-picture") as space:
        if space.has_additions and not has_picture(space):
            output.note("the node has not joined its system yet; waiting for the picture")
        with (
            SystemWatch(space) as watch,
            _screen(output, is_raw=is_raw, as_json=as_json, is_live=is_watching) as show,
        ):
            watch.wait_links(_LINKS_S_MAX)
            seen = watch.snapshot(time())
            show(seen)
            if is_raw and not seen.links:
                output.note("there are no other nodes to observe")
            if is_watching:
                if not sys.stdout.isatty():  # Where the picture fills the screen.
                    space.on_state(partial(_note_state, output))
                _follow(watch, show, stop, is_raw=is_raw)


@picture.command()
@click.argument("names", metavar="NODE...", nargs=-1)
@click.option("--all", "is_all", is_flag=True, help="Forget all dead nodes.")
@node_options
def forget(*, names: tuple[str, ...], is_all: bool, choice: NodeChoice) -> None:
    """Forget dead nodes everywhere in the system, by name or id.

    All nodes of the system remember those that were excluded, so that they never return with their
    old id. They can be forgotten when they cannot return any more. The picture shows them for five
    minutes. After that, only their ids are remembered, which the log of each node has; give the 16
    hexadecimal digits. The node asks for the permission to administer SkerryForget.

    \b
    Examples:
      skerry picture forget old-bridge
      skerry picture forget 5b9cf9130d3fdcf8
      skerry picture forget --all
    """
    if bool(names) == is_all:
        raise click.UsageError("name the nodes to forget, or give --all instead of names")
    from skerry.apps.system_watch import SystemWatch

    with (
        choice.connect_or_fail("skerry-picture") as space,
        SystemWatch(space, has_links=False) as watch,
    ):
        found = _dead(watch.picture.nodes, None if is_all else names)
        if found:
            _forget(space, set(found))
        else:
            current_output().note("there are no dead nodes in the picture")
        for node, text in found.items():
            current_output().line(visible(f"forgotten: {text} ({_hex(node)})"))


def _dead(nodes: Sequence[PictureNode], names: Sequence[str] | None) -> dict[int, str]:
    """Ids and names of the dead nodes with these names or ids; all without names.

    An id that is not in the picture may be that of a node which has been dead for long.
    """
    dead = {node.id: node.name for node in nodes if node.is_dead}
    if names is None:
        return dead
    found: dict[int, str] = {}
    for name in names:
        matching = [
            node for node in nodes if name == node.name or name.lower() in _id_texts(node.id)
        ]
        chosen = {node.id: node.name for node in matching if node.is_dead}
        if not matching and _ID.fullmatch(name):
            chosen = {int.from_bytes(bytes.fromhex(name), signed=True): "not in the picture"}
        if not chosen:
            why = "is alive" if matching else "is not in the picture"
            error = SkerryError(f"node {name} {why}, so it cannot be forgotten")
            error.hint = f"dead nodes: {', '.join(dead.values()) or 'none'}"
            raise error
        found |= chosen
    return found


def _id_texts(number: int) -> tuple[str, str]:
    """The forms of an id: as text shows it, and as JSON does."""
    return _hex(number), str(number)


def _forget(space: Space, ids: set[int]) -> None:
    from skerry.objects.internal import internal_class

    space.publish(internal_class("SkerryForget")(nodes=sorted(ids)))
    space.flush()
    end_s = monotonic() + _FORGET_S_MAX
    while ids & {node.id for node in space.picture.nodes}:
        if monotonic() > end_s:
            raise SkerryError(f"the nodes are still in the picture after {_FORGET_S_MAX:g} s")
        sleep(_LOOK_S)


def _follow(
    watch: SystemWatch, show: Callable[[SystemSnapshot], None], stop: Stop, *, is_raw: bool
) -> None:
    """Show each change of the picture, and the links once a second."""
    before, shown_s = watch.snapshot(time()), monotonic()
    while not stop.is_requested:
        sleep(_LOOK_S)
        now = watch.snapshot(time())
        is_changed = now.nodes != before.nodes or now.sequence != before.sequence
        if is_changed or (is_raw and monotonic() - shown_s >= _REPEAT_S):
            show(now)
            before, shown_s = now, monotonic()


def _note_state(output: Output, change: StateChanged) -> None:
    if change.state == "disconnected":
        output.note(f"the connection to the node is lost ({change.reason}); reconnecting")
    elif change.state == "connected":
        output.note("reconnected")


@contextmanager
def _screen(
    output: Output, *, is_raw: bool, as_json: bool, is_live: bool
) -> Iterator[Callable[[SystemSnapshot], None]]:
    """Yield the function that shows a snapshot: as JSON, live on a terminal, or as text."""
    if as_json:
        yield lambda snapshot: _print_json(output, snapshot, is_raw=is_raw)
        return
    render = _link_table if is_raw else _tree
    console = output.console(sys.stdout)
    if is_live and sys.stdout.isatty():
        from rich.live import Live

        with Live(console=console, auto_refresh=False, screen=True) as live:
            yield lambda snapshot: live.update(render(snapshot), refresh=True)
    else:
        yield lambda snapshot: console.print(render(snapshot))


def _print_json(output: Output, seen: SystemSnapshot, *, is_raw: bool) -> None:
    if is_raw:
        for link in seen.links:
            output.json_line(asdict(link))
        return
    output.json_line(
        {
            "system": seen.system,
            "node": seen.node,
            "incarnation": _hex(seen.incarnation),
            "elected": seen.elected,
            "election": seen.election,
            "sequence": seen.sequence,
            "is_detached": seen.is_detached,
            "digest": _hex(seen.digest),
            "nodes": [asdict(node) for node in seen.nodes],
            "problems": seen.problems(),
        }
    )


# -- text


def _tree(seen: SystemSnapshot) -> RenderableType:
    from rich.console import Group
    from rich.text import Text
    from rich.tree import Tree

    detached = ", detached" if seen.is_detached else ""
    head = f"system {seen.system}, picture {seen.sequence}{detached}"
    tree = Tree(Text(visible(head), style="bold"))
    for node in seen.nodes:
        style = "dim" if node.is_dead else ""
        branch = tree.add(Text(visible(_node_line(seen, node)), style=style))
        for line in _node_facts(seen, node):
            branch.add(Text(visible(line), style="dim"))
    tree.add(Text(f"digest {_hex(seen.digest)}, incarnation {_hex(seen.incarnation)}", style="dim"))
    problems = [Text(visible(f"! {problem}"), style="yellow") for problem in seen.problems()]
    return Group(tree, *problems)


def _node_line(seen: SystemSnapshot, node: PictureNode) -> str:
    marks = [
        mark
        for mark, is_set in (
            ("elected", node.id == seen.elected),
            ("this node", node.id == seen.node and bool(node.control)),
        )
        if is_set
    ]
    state = f"dead ({node.reason})" if node.is_dead else "alive"
    name = f"{node.name} ({', '.join(marks)})" if marks else node.name
    node_type = f", type {node.node_type}" if node.control else ""
    return f"{name}  {state}, {node.kind}{node_type}, id {_hex(node.id)}"


def _node_facts(seen: SystemSnapshot, node: PictureNode) -> Iterator[str]:
    from skerry.objects.times import to_datetime

    if node.control:
        yield f"control {node.control}, data {node.data}"
    if node.endpoints:
        yield f"listens at {' '.join(node.endpoints)}"
    if node.started:
        yield f"started {to_datetime(node.started).isoformat(timespec='seconds')}"
    if node.is_dead:
        return
    for link in seen.links:
        if link.observer == seen.node and link.node == node.id:
            facts = []
            if link.round_trip_s is not None:
                facts.append(f"round trip {link.round_trip_s * 1e3:.1f} ms")
            if link.clock_offset_s is not None:
                facts.append(f"clock {link.clock_offset_s:+.3f} s")
            if facts:
                yield ", ".join(facts)


def _link_table(seen: SystemSnapshot) -> RenderableType:
    return make_table(_LINK_COLUMNS, map(_link_cells, seen.links))


_LINK_COLUMNS: Final = (
    "observer",
    "node",
    "state",
    "control",
    "data",
    "duplicates",
    "resent",
    "round trip",
    "lag",
    "backlog",
    "clock",
    "silence",
)


def _link_cells(link: NodeLink) -> list[Any]:
    clock, silence, round_trip_s = link.clock_offset_s, link.silence_s, link.round_trip_s
    return [
        link.observer_name,
        link.node_name,
        f"dead ({link.reason})" if link.is_dead else "alive",
        link.control_received_count,
        link.data_received_count,
        link.control_duplicate_count + link.data_duplicate_count,
        link.control_retransmission_count + link.data_retransmission_count,
        "" if round_trip_s is None else f"{round_trip_s * 1e3:.1f} ms",
        f"{link.lag_s:.3f} s",
        link.backlog_bytes,
        "" if clock is None else f"{clock:+.3f} s",
        "" if silence is None else f"{silence:.1f} s",
    ]


def _hex(number: int) -> str:
    return f"{number % 2**64:016x}"
