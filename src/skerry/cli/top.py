"""`skerry top`: clients, types, rates and ledger of a node, refreshed periodically."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep, time
from typing import TYPE_CHECKING, Any, Final

import click

from skerry.cli.node_options import NodeChoice, node_options
from skerry.cli.output import Output, current_output, json_option
from skerry.cli.parameters import FiniteFloat, count_option
from skerry.cli.stopping import Stop, stop_on_signals
from skerry.json_values import visible

if TYPE_CHECKING:
    from rich.console import RenderableType

    from skerry.apps.system_watch import NodeLink
    from skerry.apps.top import ClientLine, NodeSnapshot, PeerLine, TypeLine

_LOOK_S: Final = 0.1
"""Interval at which a stop request is polled."""
_LEDGER_S_MAX: Final = 2.5
"""Time that the first snapshot waits for the ledger, which a node publishes each second."""
_WIDE: Final = 130
"""Columns of a terminal that the whole ledger needs."""
_ATTRIBUTES: Final = {"objects": "object_count", "members": "member_count"}
"""Columns whose attribute has another name."""
_LEDGER_COLUMNS: Final = (
    "due",
    "delivered",
    "filtered",
    "conflated",
    "expired",
    "refused",
    "queued",
    "unexplained",
)


@click.command()
@click.option(
    "--interval",
    "interval_s",
    type=FiniteFloat(min=0.1),
    default=1.0,
    metavar="S",
    help="Seconds between two snapshots.",
)
@count_option("snapshots")
@node_options
@json_option
def top(*, interval_s: float, count: int | None, choice: NodeChoice, as_json: bool) -> None:
    """Show the clients, types and system of a node, their rates and the ledger, until Ctrl-C.

    In a system, each other node is shown with its state and the link to it: datagrams received and
    sent again, the round trip, how long it is behind, and the bytes that wait for it.

    The ledger accounts for all updates that were due to subscribers: due = delivered + filtered +
    conflated + expired + refused + queued. The rest is unexplained, and always 0. The row of a
    client counts the updates that were due to it. The row of a type counts its updates once for
    each subscriber.

    \b
    Examples:
      skerry top
      skerry top --json --count 1
      skerry top --interval 5 >> node.log
    """
    from skerry.apps.top import NodeWatch

    output = current_output()
    with stop_on_signals() as stop, choice.connect_or_fail("skerry-top") as space:
        watch = NodeWatch(space)
        watch.wait_ledger(_LEDGER_S_MAX)
        with _screen(output, as_json=as_json) as show:
            left = count
            while not stop.is_requested and left != 0:
                show(watch.snapshot(time()))
                left = None if left is None else left - 1
                if left != 0:
                    _pause(interval_s, stop)


def _pause(seconds: float, stop: Stop) -> None:
    end_s = monotonic() + seconds
    while not stop.is_requested and (left_s := end_s - monotonic()) > 0:
        sleep(min(left_s, _LOOK_S))


@contextmanager
def _screen(output: Output, *, as_json: bool) -> Iterator[Callable[[NodeSnapshot], None]]:
    """Yield the function that shows a snapshot: as JSON, live on a terminal, or as lines."""
    if as_json:
        yield lambda snapshot: output.json_line(_rounded(dataclasses.asdict(snapshot)))
    elif not sys.stdout.isatty():
        yield lambda snapshot: _print_lines(output, snapshot)
    else:
        from rich.live import Live

        console = output.console(sys.stdout)
        with Live(console=console, auto_refresh=False, screen=True) as live:
            yield lambda snapshot: live.update(
                _rendered(snapshot, height=console.size.height, width=console.size.width),
                refresh=True,
            )


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list | tuple) else value


def _present(snapshot: NodeSnapshot) -> list[ClientLine]:
    """The connected clients. A node also reports closed ones as long as it has objects of them."""
    return [client for client in snapshot.clients if client.state != "closed"]


def _is_used(line: TypeLine) -> bool:
    """Whether a type has objects, subscribers or updates."""
    return bool(line.object_count or line.member_count or line.ledger.due or line.ledger.accepted)


# -- lines


def _print_lines(output: Output, snapshot: NodeSnapshot) -> None:
    output.line(f"node {_headline(snapshot)}")
    for problem in snapshot.problems:
        output.line(visible(f"problem {problem}"))
    for peer in snapshot.peers:
        output.line(visible(f"peer {' '.join(_peer_facts(peer))}"))
    own = {peer.id for peer in snapshot.peers}
    for link in snapshot.links:
        # Those of this node are the peers.
        if link.observer in own:
            output.line(visible(f"link {_link_text(link)}"))
    for client in _present(snapshot):
        output.line(f"client {client.id} {_text(client, [client.state])}")
    for type_ in filter(_is_used, snapshot.types):
        counts = [f"objects={type_.object_count}", f"members={type_.member_count}"]
        output.line(f"type {_text(type_, counts)}")


def _headline(snapshot: NodeSnapshot) -> str:
    memory = snapshot.memory_bytes_max
    facts = [
        snapshot.node,
        snapshot.state,
        f"up {_duration(snapshot.uptime_s)}",
        f"{_number(snapshot.object_count)} objects",
        f"{snapshot.received_per_s:.0f} in/s",
        f"{snapshot.sent_per_s:.0f} out/s",
        f"{'?' if memory is None else f'{memory / 1e6:.0f}'} MB at most",
        f"unexplained {_number(snapshot.unexplained)}",
    ]
    return visible(", ".join(facts))


def _peer_facts(peer: PeerLine) -> list[str]:
    facts = [peer.name, *(["elected"] if peer.is_elected else []), peer.state]
    facts += [f"in/s={peer.in_per_s:.0f}", f"resent/s={peer.resent_per_s:.0f}"]
    if peer.round_trip_s is not None:
        facts.append(f"round_trip_ms={peer.round_trip_s * 1e3:.1f}")
    if peer.lag_s is not None:
        facts.append(f"lag_s={peer.lag_s:.3f}")
    if peer.backlog_bytes is not None:
        facts.append(f"backlog_bytes={peer.backlog_bytes}")
    if peer.clock_offset_s is not None:
        facts.append(f"clock_s={peer.clock_offset_s:+.3f}")
    return facts


def _link_text(link: NodeLink) -> str:
    """What another node observes of a node."""
    round_trip = (
        "" if link.round_trip_s is None else f" round_trip_ms={link.round_trip_s * 1e3:.1f}"
    )
    return (
        f"{link.observer_name} to {link.node_name}"
        f" {f'dead ({link.reason})' if link.is_dead else 'alive'}{round_trip}"
        f" lag_s={link.lag_s:.3f} backlog_bytes={link.backlog_bytes}"
    )


def _text(line: ClientLine | TypeLine, facts: list[str]) -> str:
    rates = (f"in/s={line.in_per_s:.0f}", f"out/s={line.out_per_s:.0f}")
    queued_bytes = getattr(line, "queued_bytes", None)
    queued = [] if queued_bytes is None else [f"queued_bytes={queued_bytes}"]
    ledger = line.ledger
    counts = [] if ledger is None else [f"{n}={getattr(ledger, n)}" for n in _LEDGER_COLUMNS]
    return visible(" ".join([line.name, *facts, *rates, *queued, *counts]))


# -- a terminal


def _rendered(snapshot: NodeSnapshot, *, height: int, width: int) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    is_well = snapshot.unexplained in (0, None) and snapshot.state == "connected"
    head = Text(_headline(snapshot), style="bold" if is_well else "bold red", overflow="ellipsis")
    # 14 lines are the headline, the titles and heads of both tables, and blank lines.
    room = max(height - 14, 4)
    system: list[RenderableType] = []
    if snapshot.system is not None:
        peers = sorted(snapshot.peers, key=_peer_order)[: max(room // 3, 2)]
        problems = snapshot.problems[: max(room // 6, 1)]
        system = [Text(visible(f"! {one}"), style="yellow") for one in problems]
        system.append(_peer_table(snapshot.system, peers))
        room = max(room - len(problems) - len(peers) - 5, 4)
    types = sorted(
        filter(_is_used, snapshot.types),
        key=lambda line: (-line.in_per_s - line.out_per_s, line.name),
    )
    type_count = min(len(types), max(room // 2, room - len(snapshot.clients)))
    present = _present(snapshot)
    clients = sorted(present, key=lambda line: (-line.in_per_s - line.out_per_s, line.id))
    shown_types, shown_clients = types[:type_count], clients[: room - type_count]
    counts = _ledger_columns([*shown_types, *shown_clients], width)
    return Group(
        head,
        *system,
        _table("types", ("name", "objects", "members"), shown_types, counts),
        _table("clients", ("id", "name", "state"), shown_clients, counts),
        Text("press Ctrl-C to end", style="dim"),
    )


def _peer_order(peer: PeerLine) -> tuple[bool, float, str]:
    """Nodes that are alive first, and of these the one that is farthest behind."""
    return peer.state != "alive", -(peer.lag_s or 0.0), peer.name


def _peer_table(system: str, peers: list[PeerLine]) -> RenderableType:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    title = visible(f"other nodes of the system {system}")
    table = Table(title=title, title_justify="left", box=box.SIMPLE, pad_edge=False)
    for column in ("name", "state", "in/s", "resent/s", "round trip", "lag", "backlog", "clock"):
        is_words = column in ("name", "state")
        table.add_column(column, justify="left" if is_words else "right", no_wrap=True)
    for peer in peers:
        cells = (
            f"{peer.name} (elected)" if peer.is_elected else peer.name,
            peer.state,
            f"{peer.in_per_s:.0f}",
            f"{peer.resent_per_s:.0f}",
            "" if peer.round_trip_s is None else f"{peer.round_trip_s * 1e3:.1f} ms",
            "" if peer.lag_s is None else f"{peer.lag_s:.1f} s",
            "" if peer.backlog_bytes is None else str(peer.backlog_bytes),
            "" if peer.clock_offset_s is None else f"{peer.clock_offset_s:+.3f} s",
        )
        style = None if peer.state == "alive" else "dim"
        table.add_row(*(Text(visible(cell)) for cell in cells), style=style)
    return table


def _ledger_columns(lines: list[Any], width: int) -> list[str]:
    """The columns of the ledger: all of them, or on a narrow terminal those that are not 0."""
    ledgers = [line.ledger for line in lines if line.ledger is not None]
    return [
        name
        for name in _LEDGER_COLUMNS
        if width >= _WIDE or any(getattr(ledger, name) for ledger in ledgers)
    ]


def _table(
    title: str, columns: tuple[str, ...], lines: list[Any], ledger_columns: list[str]
) -> RenderableType:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", box=box.SIMPLE, pad_edge=False)
    for column in (*columns, "in/s", "out/s", *ledger_columns):
        is_words = column in ("name", "state")
        table.add_column(column, justify="left" if is_words else "right", no_wrap=True)
    for line in lines:
        ledger = line.ledger
        is_well = ledger is None or ledger.unexplained == 0
        counts = ["" if ledger is None else str(getattr(ledger, name)) for name in ledger_columns]
        cells = [str(getattr(line, _ATTRIBUTES.get(name, name))) for name in columns]
        row = [*cells, f"{line.in_per_s:.0f}", f"{line.out_per_s:.0f}", *counts]
        table.add_row(*(Text(visible(cell)) for cell in row), style=None if is_well else "red")
    return table


def _number(value: int | None) -> str:
    return "?" if value is None else str(value)


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return (
        f"{days}d {hours:02}:{minutes:02}:{rest:02}"
        if days
        else f"{hours:02}:{minutes:02}:{rest:02}"
    )
