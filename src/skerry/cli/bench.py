"""`skerry bench`: measure a node with one publisher and one subscriber."""

from __future__ import annotations

from dataclasses import asdict

import click

from skerry.cli.measuring import size_text, span_text
from skerry.cli.node_options import NodeChoice, node_options
from skerry.cli.output import current_output, json_option
from skerry.cli.parameters import FiniteFloat
from skerry.cli.stopping import stop_on_signals


@click.command()
@click.option(
    "--seconds",
    type=FiniteFloat(min=0.05, max=3600),
    default=2.0,
    help="Duration in seconds.",
)
@click.option(
    "--size",
    type=click.IntRange(0, 1_000_000),
    default=56,
    help="Size of an update in bytes.",
)
@node_options
@json_option
def bench(*, seconds: float, size: int, choice: NodeChoice, as_json: bool) -> None:
    """Measure a node: round trips, and how many updates per second pass. The result is one line.

    One publisher and one subscriber are connections of this command. They use a subject of their
    own, which no other program receives unless it subscribes to everything. This command needs more
    CPU time than the node, so a node serves several such pairs at the shown rate together; compare
    results of one computer only.

    \b
    Examples:
      skerry bench
      skerry bench --size 1000 --seconds 5 --node harbour:11235
      skerry bench --json
    """
    from skerry.apps.node_bench import bench_node

    with stop_on_signals() as stop:
        result = bench_node(
            choice.connect, seconds=seconds, size=size, is_stopped=lambda: stop.is_requested
        )
    text = (
        f"{result.node}: {result.rate:,.0f} updates/s of {size_text(result.size)};"
        f" round trip median {span_text(result.trip_s_median)}, p99 {span_text(result.trip_s_p99)};"
        f" {result.cpu_us:.1f} us CPU of the clients per update"
    )
    current_output().result(text, as_json=as_json, rate=round(result.rate), **asdict(result))
