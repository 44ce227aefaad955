"""`skerry picture`: the nodes of the system, as one node sees them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from skerry.cli.node_options import NodeChoice, node_options
from skerry.cli.output import Output, current_output, json_option

if TYPE_CHECKING:
    from skerry.client.api.picture import Picture


@click.command()
@node_options
@json_option
def picture(*, choice: NodeChoice, as_json: bool) -> None:
    """Show the picture of the system: its nodes, their states, and the elected node.

    A node without a system name is a system of one node. With --json, the picture is one line.

    \b
    Examples:
      skerry picture
      skerry picture --node tcp://10.1.2.3 --json
    """
    with choice.connect_or_fail("skerry-picture") as space:
        seen = space.picture
        if as_json:
            current_output().json_line(_row(seen))
        else:
            _print(current_output(), seen)


def _row(seen: Picture) -> dict[str, object]:
    return {
        "system": seen.system,
        "elected": seen.elected,
        "election": seen.election,
        "sequence": seen.sequence,
        "is_detached": seen.is_detached,
        "digest": f"{seen.digest:016x}",
        "nodes": [asdict(node) for node in seen.nodes],
    }


def _print(output: Output, seen: Picture) -> None:
    from skerry.json_values import visible
    from skerry.objects.times import to_datetime

    detached = ", detached" if seen.is_detached else ""
    output.line(visible(f"system {seen.system}, picture {seen.sequence}{detached}"))
    output.table(
        ("node", "id", "kind", "state", "control", "started", "endpoints"),
        [
            (
                visible(node.name) + (" (elected)" if node.id == seen.elected else ""),
                f"{node.id % 2**64:016x}",
                node.kind,
                f"dead ({visible(node.reason)})" if node.is_dead else "alive",
                visible(node.control),
                to_datetime(node.started).isoformat(timespec="seconds") if node.started else "",
                visible(" ".join(node.endpoints)),
            )
            for node in seen.nodes
        ],
    )
