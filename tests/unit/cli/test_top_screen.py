"""The screen of `skerry top`, and the captures of it in the documentation.

`tests/golden/top-snapshot.json` was printed by `skerry top --json` while two fleets, a display, a
slow display and an alarm used a node. Write the captures again, after a change of the screen, with
`.venv/bin/python -P -m tests.unit.cli.test_top_screen`.
"""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from skerry.apps.top import ClientLine, Counts, NodeSnapshot, TypeLine
from skerry.cli.top_screen import SORT_KEYS, View, screen, short_number, shown_clients, shown_types
from tests.unit.cli.test_top import PICTURE, SYSTEM, peer

ROOT = Path(__file__).resolve().parents[3]
SIZES = ((80, 24), (140, 45))


def recorded() -> NodeSnapshot:
    def counts(row: dict[str, Any]) -> dict[str, Any]:
        lists = {name: tuple(value) for name, value in row.items() if isinstance(value, list)}
        ledger = None if row["ledger"] is None else Counts(**row["ledger"])
        return {**row, **lists, "ledger": ledger}

    path = ROOT / "tests" / "golden" / "top-snapshot.json"
    plain = json.loads(path.read_text(encoding="utf-8"))
    types = tuple(TypeLine(**counts(row)) for row in plain.pop("types"))
    clients = tuple(ClientLine(**counts(row)) for row in plain.pop("clients"))
    return NodeSnapshot(**plain, types=types, clients=clients)


def drawn(
    snapshot: NodeSnapshot, view: View | None = None, *, width: int = 80, height: int = 24
) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width, height=height)
    view = view or View(keys="q quit, a all, s sort")
    console.print(screen(snapshot, view, width=width, height=height))
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())


def capture(width: int, height: int) -> Path:
    return ROOT / "docs" / "images" / f"top-{width}x{height}.txt"


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_captures_in_the_documentation_are_what_is_shown(width: int, height: int) -> None:
    shown = drawn(recorded(), width=width, height=height)
    assert capture(width, height).read_text(encoding="utf-8") == shown


@pytest.mark.parametrize("snapshot", [PICTURE, SYSTEM, recorded()])
@pytest.mark.parametrize(("width", "height"), [(80, 24), (60, 12), (140, 45), (200, 60)])
def test_it_fits_the_terminal(snapshot: NodeSnapshot, width: int, height: int) -> None:
    lines = drawn(snapshot, width=width, height=height).splitlines()
    assert len(lines) <= max(height, 16)
    assert max(map(len, lines)) <= width


def test_the_busiest_are_first_and_the_rest_is_left_out() -> None:
    lines = drawn(PICTURE).splitlines()
    assert "Type29" in "\n".join(lines)
    assert "Type00" not in "\n".join(lines)
    assert [line.name for line in shown_types(PICTURE, View())][:2] == ["Type29", "Type28"]


def test_narrow_terminals_show_troubles_and_wide_ones_the_whole_ledger() -> None:
    assert "UNEXPLAINED" in drawn(PICTURE)
    assert "CONFLATED" not in drawn(PICTURE)
    assert "DELIVERED" not in drawn(PICTURE)
    assert "DELIVERED" in drawn(PICTURE, width=130)
    assert "CONFLATED" in drawn(PICTURE, width=200)


def test_slow_clients_are_marked_and_first() -> None:
    text = drawn(recorded())
    lines = text.splitlines()
    assert "1 slow" in lines[0]
    clients = lines[next(n for n, line in enumerate(lines) if line.startswith("CLIENT")) + 1 :]
    assert clients[0].startswith("slow-display (6) SLOW")
    assert "?" in clients[0], "it receives nothing, so its delay has no end yet"


def test_what_is_skerrys_own_is_hidden_unless_all_is_shown() -> None:
    snapshot = recorded()
    assert "skerry-top" in [line.name for line in snapshot.clients]
    text = drawn(snapshot)
    assert "skerry-top" not in text
    assert "DotsClient" not in text
    everything = drawn(snapshot, View(shows_all=True), height=45)
    assert "skerry-top" in everything
    assert "DotsClient" in everything


def test_every_order_is_reached_by_keys() -> None:
    view, seen = View(), []
    for _ in SORT_KEYS:
        seen.append(view.sort)
        view.press("s")
    assert seen == list(SORT_KEYS)
    view.press("n")
    assert view.sort == "name"
    view.press("q")
    view.press("x")
    assert view.sort == "name"
    for name in SORT_KEYS:
        assert shown_clients(recorded(), View(sort=name))
        assert shown_types(recorded(), View(sort=name))
    by_name = [line.name for line in shown_clients(recorded(), View(sort="name"))]
    assert by_name == sorted(by_name)
    assert shown_clients(recorded(), View(sort="delay"))[0].name == "slow-display"


def test_the_other_nodes_of_a_system_are_a_table() -> None:
    text = drawn(SYSTEM, width=120, height=40)
    assert "! dock is excluded: silent" in text
    assert "NODES OF bay" in text
    assert text.index("tug") < text.index("quay (elected)") < text.index("dock dead (silent)"), (
        "the node that is farthest behind is first"
    )
    many = replace(SYSTEM, peers=tuple(peer(f"n{number}", id=number) for number in range(90)))
    assert drawn(many, width=120, height=40).count("\n") <= 40


def test_numbers_are_short() -> None:
    numbers = (0.4, 9999, 12_345, 4_500_000, 7e9, 7e12)
    assert [short_number(number) for number in numbers] == [
        "0",
        "9999",
        "12.3k",
        "4.5M",
        "7.0G",
        "7000.0G",
    ]


if __name__ == "__main__":
    for size in SIZES:
        capture(*size).write_text(
            drawn(recorded(), width=size[0], height=size[1]), encoding="utf-8"
        )
