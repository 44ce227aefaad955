"""The screen of `skerry top`: what matters first, within the lines and columns of the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from skerry.cli.measuring import size_text, span_text
from skerry.json_values import visible
from skerry.schema.internal import internal_types

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from skerry.apps.top import ClientLine, NodeSnapshot, PeerLine, TypeLine

LEDGER_COLUMNS: Final = (
    "due",
    "delivered",
    "filtered",
    "conflated",
    "expired",
    "refused",
    "queued",
    "unexplained",
)
_TROUBLES: Final = ("conflated", "expired", "refused", "unexplained")
"""Columns of the ledger that a narrow terminal shows, unless all of them are 0."""
_WIDE: Final = 160
"""Columns of a terminal that the whole ledger needs."""
_MEDIUM: Final = 120
"""Columns of a terminal with room for what is not 0 in the ledger."""
_OWN_TOOL: Final = "skerry-"
"""How the names of the clients begin that the commands of skerry are."""

SORT_KEYS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "rate": lambda line: -(line.in_per_s + line.out_per_s),
    "bytes": lambda line: -_bytes_per_s(line),
    "delay": lambda line: -_delay(line),
    "queued": lambda line: -getattr(line, "queued_bytes", line.ledger.queued if line.ledger else 0),
    "objects": lambda line: -getattr(line, "object_count", 0),
    "name": lambda line: line.name.lower(),
}
"""Orders of types and clients, and what a line is sorted by. Ties are sorted by rate and name."""


@dataclass(slots=True, kw_only=True)
class View:
    """What the screen shows, which keys change."""

    sort: str = "rate"
    shows_all: bool = False
    """Whether status types of the node and clients of skerry's own commands are shown."""
    keys: str = field(default="Ctrl-C ends")
    """The last line."""

    def press(self, key: str) -> None:
        """Change what a key stands for; other keys are ignored."""
        if key == "a":
            self.shows_all = not self.shows_all
        elif key == "s":
            names = list(SORT_KEYS)
            self.sort = names[(names.index(self.sort) + 1) % len(names)]
        elif key != "q":
            self.sort = next((name for name in SORT_KEYS if name[0] == key), self.sort)


def shown_types(snapshot: NodeSnapshot, view: View) -> list[TypeLine]:
    """The types that have objects, subscribers or updates, in order."""
    used = [
        line
        for line in snapshot.types
        if line.object_count or line.member_count or line.ledger.due or line.ledger.accepted
        if view.shows_all or line.name not in internal_types()
    ]
    return _sorted(used, view)


def shown_clients(snapshot: NodeSnapshot, view: View) -> list[ClientLine]:
    """The connected clients, in order. A node reports closed ones as long as it has their
    objects."""
    present = [
        line
        for line in snapshot.clients
        if line.state != "closed"
        if view.shows_all or not line.name.startswith(_OWN_TOOL)
    ]
    return _sorted(present, view)


def screen(snapshot: NodeSnapshot, view: View, *, height: int, width: int) -> RenderableType:
    """The screen, of at most `height` lines if that is at least 12."""
    from rich.console import Group
    from rich.text import Text

    types, clients = shown_types(snapshot, view), shown_clients(snapshot, view)
    head = _head(snapshot)
    # The lines of the head, two column heads, two blank lines and the keys.
    room = max(height - len(head) - 5, 5)
    system: list[RenderableType] = []
    if snapshot.system is not None:
        peers = sorted(snapshot.peers, key=_peer_order)[: max(room // 3, 2)]
        problems = snapshot.problems[: max(room // 6, 1)]
        system = [Text(visible(f"! {one}"), style="yellow") for one in problems]
        system += [Text(""), _peer_table(snapshot.system, peers)]
        room = max(room - len(problems) - len(peers) - 2, 4)
    slow = [line for line in clients if line.is_slow]
    # Slow clients are shown whatever the order is.
    clients = [*slow, *(line for line in clients if not line.is_slow)]
    type_count = min(len(types), max(room // 2, room - len(clients)))
    types, clients = types[:type_count], clients[: room - type_count]
    counts = _ledger_columns([*types, *clients], width)
    hidden = "" if view.shows_all else ", without skerry's own"
    keys = f"{view.keys}; by {view.sort}{hidden}"
    return Group(
        *head,
        *system,
        Text(""),
        _type_table(types, counts),
        Text(""),
        _client_table(clients, counts),
        Text(keys[:width], style="dim"),
    )


def headline(snapshot: NodeSnapshot) -> str:
    """The node in one line."""
    memory = snapshot.memory_bytes_max
    facts = [
        snapshot.node,
        snapshot.state,
        f"up {_duration(snapshot.uptime_s)}",
        f"{number_text(snapshot.object_count)} objects",
        f"{snapshot.received_per_s:.0f} in/s",
        f"{snapshot.sent_per_s:.0f} out/s",
        f"{'?' if memory is None else f'{memory / 1e6:.0f}'} MB at most",
        f"unexplained {number_text(snapshot.unexplained)}",
    ]
    return visible(", ".join(facts))


def _head(snapshot: NodeSnapshot) -> list[RenderableType]:
    from rich.text import Text

    is_well = snapshot.unexplained in (0, None) and snapshot.state == "connected"
    slow_count = sum(line.is_slow for line in snapshot.clients if line.state != "closed")
    answer = "?" if snapshot.answer_s is None else span_text(snapshot.answer_s)
    memory = snapshot.memory_bytes_max
    first = [
        f"{snapshot.node} {snapshot.state}",
        f"up {_duration(snapshot.uptime_s)}",
        f"answers in {answer}",
        f"{'?' if memory is None else size_text(memory)} at most",
        *([f"{slow_count} slow"] if slow_count else []),
        *([f"unexplained {snapshot.unexplained}"] if snapshot.unexplained else []),
    ]
    bytes_in, bytes_out = snapshot.received_bytes_per_s, snapshot.sent_bytes_per_s
    second = [
        f"in {short_number(snapshot.received_per_s)}/s {size_text(bytes_in)}/s",
        f"out {short_number(snapshot.sent_per_s)}/s {size_text(bytes_out)}/s",
        f"{number_text(snapshot.object_count)} objects",
    ]
    style = "bold" if is_well and not slow_count else "bold red"
    return [
        Text(visible(", ".join(first)), style=style, overflow="ellipsis", no_wrap=True),
        Text(visible(", ".join(second)), overflow="ellipsis", no_wrap=True),
    ]


def _type_table(lines: Sequence[TypeLine], counts: Sequence[str]) -> Table:
    table = _empty_table("TYPE", "OBJECTS", "SUBS", "IN/S", "OUT/S", *map(str.upper, counts))
    for line in lines:
        cells = [
            line.name,
            short_number(line.object_count),
            short_number(line.member_count),
            short_number(line.in_per_s),
            short_number(line.out_per_s),
            *_count_cells(line, counts),
        ]
        _add(table, cells, style="red" if line.ledger.unexplained else None)
    return table


def _client_table(lines: Sequence[ClientLine], counts: Sequence[str]) -> Table:
    columns = ("CLIENT", "IN/S", "OUT/S", "IN B/S", "OUT B/S", "QUEUED", "DELAY")
    table = _empty_table(*columns, *map(str.upper, counts))
    for line in lines:
        state = "" if line.state == "connected" else f" {line.state}"
        mark = " SLOW" if line.is_slow else ""
        cells = [
            f"{line.name} ({line.id}){state}{mark}",
            short_number(line.in_per_s),
            short_number(line.out_per_s),
            size_text(line.in_bytes_per_s),
            size_text(line.out_bytes_per_s),
            size_text(line.queued_bytes),
            "?" if line.delay_s is None else span_text(line.delay_s) if line.delay_s else "0",
            *_count_cells(line, counts),
        ]
        is_wrong = line.ledger is not None and line.ledger.unexplained
        _add(table, cells, style="red" if is_wrong else "yellow" if line.is_slow else None)
    return table


def _peer_order(peer: PeerLine) -> tuple[bool, float, str]:
    """Nodes that are alive first, and of these the one that is farthest behind."""
    return peer.state != "alive", -(peer.lag_s or 0.0), peer.name


def _peer_table(system: str, peers: Sequence[PeerLine]) -> Table:
    title = visible(f"NODES OF {system}")
    table = _empty_table(title, "IN/S", "RESENT/S", "ROUND TRIP", "LAG", "BACKLOG", "CLOCK")
    for peer in peers:
        state = "" if peer.state == "alive" else f" {peer.state}"
        cells = [
            f"{peer.name}{' (elected)' if peer.is_elected else ''}{state}",
            short_number(peer.in_per_s),
            short_number(peer.resent_per_s),
            "" if peer.round_trip_s is None else span_text(peer.round_trip_s),
            "" if peer.lag_s is None else f"{peer.lag_s:.1f} s",
            "" if peer.backlog_bytes is None else size_text(peer.backlog_bytes),
            "" if peer.clock_offset_s is None else f"{peer.clock_offset_s:+.3f} s",
        ]
        _add(table, cells, style=None if peer.state == "alive" else "dim")
    return table


def _empty_table(first: str, *others: str) -> Table:
    """A table whose first column takes the width that the others leave."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, expand=True, header_style="bold")
    table.add_column(first, no_wrap=True, overflow="ellipsis", ratio=1)
    for column in others:
        table.add_column(column, justify="right", no_wrap=True, min_width=len(column))
    return table


def _add(table: Table, cells: Sequence[str], style: str | None) -> None:
    from rich.text import Text

    table.add_row(*(Text(visible(cell)) for cell in cells), style=style)


def _count_cells(line: ClientLine | TypeLine, counts: Sequence[str]) -> list[str]:
    ledger = line.ledger
    return ["" if ledger is None else short_number(getattr(ledger, name)) for name in counts]


def _ledger_columns(lines: Sequence[Any], width: int) -> list[str]:
    """The columns of the ledger: all of them, on a narrower terminal those that are not 0, and on a
    narrow one only the troubles of these."""
    if width >= _WIDE:
        return list(LEDGER_COLUMNS)
    ledgers = [line.ledger for line in lines if line.ledger is not None]
    names = LEDGER_COLUMNS if width >= _MEDIUM else _TROUBLES
    return [name for name in names if any(getattr(ledger, name) for ledger in ledgers)]


def _sorted(lines: Sequence[Any], view: View) -> list[Any]:
    first, by_rate = SORT_KEYS[view.sort], SORT_KEYS["rate"]
    return sorted(lines, key=lambda line: (first(line), by_rate(line), line.name))


def _delay(line: ClientLine | TypeLine) -> float:
    """A client that receives nothing of what is queued for it has the longest delay."""
    delay_s: float | None = getattr(line, "delay_s", 0.0)
    return math.inf if delay_s is None else delay_s


def _bytes_per_s(line: ClientLine | TypeLine) -> float:
    inward: float = getattr(line, "in_bytes_per_s", 0.0)
    outward: float = getattr(line, "out_bytes_per_s", 0.0)
    return inward + outward


def number_text(value: int | None) -> str:
    return "?" if value is None else str(value)


def short_number(value: float) -> str:
    """A number of at most six characters: 1234, 12.3k, 4.5M."""
    if value < 10_000:
        return f"{value:.0f}"
    for unit in ("k", "M", "G"):
        value /= 1000
        if value < 1000 or unit == "G":
            break
    return f"{value:.1f}{unit}"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    clock = f"{hours:02}:{minutes:02}:{rest:02}"
    return f"{days}d {clock}" if days else clock
