"""Options of commands that use a multicast group: how to get there, and whose bytes are spoken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = ["group_key_option", "group_reach_options", "group_segment_option"]

Command = TypeVar("Command", bound=Callable[..., Any])


def group_key_option(command: Command) -> Command:
    """The keys of a multicast group: `key_file`."""
    return click.option(
        "--key-file",
        default="",
        metavar="FILE",
        help="Keys of the group: all datagrams are encrypted then, and others are refused.",
    )(command)


def group_segment_option(command: Command) -> Command:
    """The size of the largest datagram that is sent to a group: `segment_bytes`."""
    return click.option(
        "--segment-bytes",
        type=click.IntRange(128, 65_507),
        callback=lambda _context, _option, value: value or 0,
        metavar="N",
        help="Size of the largest datagram. By default 7800 or what fits the MTU, and 8192 once a"
        " Java program is heard. Java programs read updates of at most two datagrams: set 8192 for"
        " those that only subscribe, as they are not heard.",
    )(command)


def group_reach_options(command: Command) -> Command:
    """How to reach a multicast group: `interface`, `ttl` and `dialect`."""
    options = (
        click.option(
            "--interface",
            default="",
            metavar="NAME|ADDRESS",
            help="Network interface of the group; 127.0.0.1 stays on this computer. If not given,"
            " the one the system chooses.",
        ),
        click.option(
            "--ttl",
            type=click.IntRange(0, 255),
            default=1,
            show_default=True,
            help="How many routers may be passed, and one; 1 stays on the local network.",
        ),
        click.option(
            "--dialect",
            type=click.Choice(["java", "pycast"]),
            default="java",
            show_default=True,
            help="Whose bytes are spoken in the group.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command
