"""Writes docs/internals/state-machines.md from the transition tables; a tidy test compares them."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Any

from skerry.protocol.access.handshake import CLIENT_HANDSHAKE, SERVER_HANDSHAKE
from skerry.protocol.distributor.receiving.receiver_states import RECEIVER_TRANSITIONS
from skerry.protocol.portal.hold import HOLD_TRANSITIONS
from skerry.protocol.portal.session_states import SESSION_TRANSITIONS
from skerry.protocol.transitions import TransitionTable

PAGE = Path(__file__).resolve().parent.parent / "docs" / "internals" / "state-machines.md"

INTRODUCTION = """\
# State machines

The states of a protocol machine are a table of (state, event, next state), and the machine looks
its next state up in it (`protocol.transitions`). A transition that is not in the table is a bug and
fails an assertion. Input that a peer must not send is checked before, and answered as the
[wire reference](../reference/wire/index.md) describes. `tools/draw_machines.py` writes this page
from the tables, and a test compares the two.
"""

CLIENT = """\
The table is in `protocol.access.handshake`, the machine is `protocol.access.client`. A client
without a secret closes the connection to a node that requires one.
"""

SERVER = """\
The table is in `protocol.access.handshake`, the machine is `protocol.access.server`. The node
closes the connection of a client that breaks the protocol. A connected client receives the reason.
"""

RECEIVER = """\
The table is in `protocol.distributor.receiving.receiver_states`, the machine is
`protocol.distributor.receiving.receiver`. A connection has one receiver for each sender of its
group.
"""

HOLD = """\
The table and the machine are in `protocol.portal.hold`. A portal has one hold.
"""

SESSION = """\
The table is in `protocol.portal.session_states`, the machine is `protocol.portal.session`. A client
that was open before waits in HELD for other clients only, as a hold that was released is not set
again.
"""

TABLES: tuple[tuple[TransitionTable[Any, Any], str], ...] = (
    (CLIENT_HANDSHAKE, CLIENT),
    (SERVER_HANDSHAKE, SERVER),
    (RECEIVER_TRANSITIONS, RECEIVER),
    (HOLD_TRANSITIONS, HOLD),
    (SESSION_TRANSITIONS, SESSION),
)


def page() -> str:
    """Return the whole page."""
    return "\n".join([INTRODUCTION, *(section(table, text) for table, text in TABLES)])


def section(table: TransitionTable[Any, Any], text: str) -> str:
    states = states_of(table)
    meanings = "\n".join(f"| `{state.name}` | {state.value} |" for state in states)
    return (
        f"## {table.title}\n\n{text}\n```text\n{diagram(table)}```\n\n"
        f"| state | meaning |\n|---|---|\n{meanings}\n"
    )


def diagram(table: TransitionTable[Any, Any]) -> str:
    """Draw a box for each state, with an arrow for each transition to another one."""
    width = max(len(event.value) for _, event, _ in table.transitions) + 4
    lines = ["  start", "    |", "    v"]
    for state in states_of(table):
        lines += [f"+-{'-' * len(state.name)}-+", f"| {state.name} |"]
        lines += [f"+-{'-' * len(state.name)}-+"]
        arrows = [
            f"-- {event.value} {'-' * (width - len(event.value))}> {after.name}"
            for before, event, after in table.transitions
            if before is state and after is not state
        ]
        lines += [f"    |{arrow}" for arrow in arrows[:-1]]
        lines += [f"    +{arrow}" for arrow in arrows[-1:]]
        lines.append("")
    return "\n".join(lines[:-1]) + "\n"


def states_of(table: TransitionTable[Any, Any]) -> list[enum.Enum]:
    """Return the states in the order of the table, the first one first."""
    named = [state for before, _, after in table.transitions for state in (before, after)]
    order = [before for before, _, _ in table.transitions]
    return list(dict.fromkeys([table.start, *order, *named]))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
