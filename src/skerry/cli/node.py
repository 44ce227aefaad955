"""`skerry node`: a node on this computer."""

from __future__ import annotations

import click

from skerry.cli.output import current_output

__all__ = ["node"]


@click.group()
def node() -> None:
    """A node: takes what programs publish, keeps what is current, tells who asked."""


@node.command()
@click.option(
    "--listen",
    "listen",
    multiple=True,
    metavar="URI",
    help="Where to take clients: tcp://host:port, tcp-v1://host:port or uds:/path. Replaces the"
    " usual places.",
)
@click.option("--name", default="skerry", show_default=True, help="What it tells its clients.")
def run(*, listen: tuple[str, ...], name: str) -> None:
    """Run a node until Ctrl-C or SIGTERM; programs that speak DOTS can use it as it is.

    Without --listen it takes clients of this computer only, at the usual ports: 11235 for the
    current framing and 11234 for the old one.

    \b
    Examples:
      skerry node run
      skerry node run --listen tcp://127.0.0.1:4000 --listen uds:/run/skerry/node.sock
    """
    import asyncio

    from skerry.apps.node import run_node
    from skerry.runtime.endpoints import parse_endpoint

    output = current_output()
    endpoints = [parse_endpoint(text) for text in listen]
    asyncio.run(run_node(name=name, endpoints=endpoints, tell=output.note))
