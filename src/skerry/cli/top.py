"""`skerry top`: clients, types, rates and ledger of a node, refreshed periodically."""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Final

import click

from skerry.cli.keys import has_keys, key_presses
from skerry.cli.node_options import NodeChoice, node_options
from skerry.cli.output import Output, current_output, json_option
from skerry.cli.parameters import FiniteFloat, count_option
from skerry.cli.stopping import Stop, stop_on_signals
from skerry.cli.top_screen import (
    LEDGER_COLUMNS,
    SORT_KEYS,
    View,
    headline,
    screen,
    shown_clients,
    shown_types,
)
from skerry.json_values import visible

if TYPE_CHECKING:
    from skerry.apps.system_watch import NodeLink
    from skerry.apps.top import ClientLine, NodeSnapshot, NodeWatch, PeerLine, TypeLine

_LOOK_S: Final = 0.1
"""Interval at which a stop request is polled."""
_LEDGER_S_MAX: Final = 2.5
"""Time that the first snapshot waits for the ledger, which a node publishes each second."""
_ANSWER_S_MAX: Final = 2.0
"""Time to wait for the answer of the node whose delay is shown."""
_KEYS: Final = "q quit, a all, s sort"


@click.command()
@click.option(
    "--interval",
    "interval_s",
    type=FiniteFloat(min=0.1),
    default=1.0,
    metavar="S",
    help="Seconds between two snapshots.",
)
@click.option(
    "--sort",
    type=click.Choice(list(SORT_KEYS)),
    default="rate",
    help="Order of types and clients.",
)
@click.option(
    "-a",
    "--all",
    "shows_all",
    is_flag=True,
    help="Show the status types of the node and the clients of skerry's own commands, too.",
)
@count_option("snapshots")
@node_options
@json_option
def top(
    *,
    interval_s: float,
    sort: str,
    shows_all: bool,
    count: int | None,
    choice: NodeChoice,
    as_json: bool,
) -> None:
    """Show the clients, types and system of a node, their rates and the ledger, until Ctrl-C.

    In a system, each other node is shown with its state and the link to it: datagrams received and
    sent again, the round trip, how long it is behind, and the bytes that wait for it.

    A client is SLOW if at least 64 KiB wait for it, or if updates were conflated or expired for it.
    Its delay is the time that the queued bytes will wait at the present rate. `answers in` is the
    round trip of a question to the node.

    The ledger accounts for all updates that were due to subscribers: due = delivered + filtered +
    conflated + expired + refused + queued. The rest is unexplained, and always 0. The row of a
    client counts the updates that were due to it. The row of a type counts its updates once for
    each subscriber.

    On a terminal, q quits, a shows all, s changes the order, and the first letter of an order
    chooses it. With --json, a line has everything.

    \b
    Examples:
      skerry top
      skerry top --sort bytes --all
      skerry top --json --count 1
      skerry top --interval 5 >> node.log
    """
    from skerry.apps.top import NodeWatch

    output = current_output()
    view = View(sort=sort, shows_all=shows_all)
    with stop_on_signals() as stop, choice.connect_or_fail("skerry-top") as space:
        watch = NodeWatch(space)
        watch.wait_ledger(_LEDGER_S_MAX)
        _show_all(watch, view, output, stop, interval_s=interval_s, count=count, as_json=as_json)


def _show_all(
    watch: NodeWatch,
    view: View,
    output: Output,
    stop: Stop,
    *,
    interval_s: float,
    count: int | None,
    as_json: bool,
) -> None:
    pressed = threading.Event()

    def press(key: str) -> None:
        if key == "q" and not stop.is_requested:
            stop.request()
        view.press(key)
        pressed.set()

    with ExitStack() as stack:
        if not as_json and sys.stdout.isatty() and has_keys():
            view.keys = _KEYS
            stack.enter_context(key_presses(press))
        show = stack.enter_context(_screen(output, view, as_json=as_json))
        left = count
        while not stop.is_requested and left != 0:
            answer_s = watch.answer_time(_ANSWER_S_MAX)
            snapshot = watch.snapshot(time(), answer_s=answer_s)
            show(snapshot)
            left = None if left is None else left - 1
            if left != 0:
                _pause(interval_s, stop, pressed, partial(show, snapshot))


def _pause(
    seconds: float, stop: Stop, pressed: threading.Event, redraw: Callable[[], None]
) -> None:
    """Wait, and draw again when a key was pressed."""
    end_s = monotonic() + seconds
    while not stop.is_requested and (left_s := end_s - monotonic()) > 0:
        if pressed.wait(min(left_s, _LOOK_S)):
            pressed.clear()
            redraw()


@contextmanager
def _screen(
    output: Output, view: View, *, as_json: bool
) -> Iterator[Callable[[NodeSnapshot], None]]:
    """Yield the function that shows a snapshot: as JSON, live on a terminal, or as lines."""
    if as_json:
        yield lambda snapshot: output.json_line(_rounded(dataclasses.asdict(snapshot)))
    elif not sys.stdout.isatty():
        yield lambda snapshot: _print_lines(output, snapshot, view)
    else:
        from rich.live import Live

        console = output.console(sys.stdout)
        with Live(console=console, auto_refresh=False, screen=True) as live:
            yield lambda snapshot: live.update(
                screen(snapshot, view, height=console.size.height, width=console.size.width),
                refresh=True,
            )


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list | tuple) else value


# -- lines


def _print_lines(output: Output, snapshot: NodeSnapshot, view: View) -> None:
    output.line(f"node {headline(snapshot)}")
    for problem in snapshot.problems:
        output.line(visible(f"problem {problem}"))
    for peer in snapshot.peers:
        output.line(visible(f"peer {' '.join(_peer_facts(peer))}"))
    own = {peer.id for peer in snapshot.peers}
    for link in snapshot.links:
        # Those of this node are the peers.
        if link.observer in own:
            output.line(visible(f"link {_link_text(link)}"))
    for client in shown_clients(snapshot, view):
        output.line(f"client {client.id} {_text(client, [client.state])}")
    for type_ in shown_types(snapshot, view):
        counts = [f"objects={type_.object_count}", f"members={type_.member_count}"]
        output.line(f"type {_text(type_, counts)}")


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
    words = [line.name, *facts, f"in/s={line.in_per_s:.0f}", f"out/s={line.out_per_s:.0f}"]
    if not hasattr(line, "object_count"):
        words += [
            f"in_bytes/s={line.in_bytes_per_s:.0f}",
            f"out_bytes/s={line.out_bytes_per_s:.0f}",
            f"queued_bytes={line.queued_bytes}",
            *([] if line.delay_s is None else [f"delay_s={line.delay_s:.3f}"]),
            *(["slow"] if line.is_slow else []),
        ]
    if line.ledger is not None:
        words += [f"{name}={getattr(line.ledger, name)}" for name in LEDGER_COLUMNS]
    return visible(" ".join(words))
