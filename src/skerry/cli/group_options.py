"""Options of commands that use a multicast group: interface, TTL, dialect, keys, datagram size."""

from __future__ import annotations

import click

from skerry.cli.parameters import with_options

group_key_option = click.option(
    "--key-file",
    default="",
    show_default=False,
    metavar="FILE",
    help="Key file of the group: datagrams are sealed, and others are dropped. Default: none.",
)
"""Add `--key-file`, as the argument `key_file`: the keys of a sealed group."""

group_segment_option = click.option(
    "--segment-bytes",
    type=click.IntRange(128, 65_507),
    callback=lambda _context, _option, value: value or 0,
    metavar="N",
    help="Size of the largest datagram in bytes. Default: 7800 or what fits the MTU, and 8192"
    " once a Java program has sent a datagram. Java programs can read updates of at most two"
    " datagrams; set 8192 if they only subscribe, since subscribers cannot be detected.",
)
"""Add `--segment-bytes`, as the argument `segment_bytes`: 0 selects the default."""

group_reach_options = with_options(
    click.option(
        "--interface",
        default="",
        show_default=False,
        metavar="NAME|ADDRESS",
        help="Network interface of the group, by name or address; 127.0.0.1 keeps datagrams on"
        " this computer. Default: the interface that the system chooses.",
    ),
    click.option(
        "--ttl",
        type=click.IntRange(0, 255),
        default=1,
        help="Multicast TTL; 1 keeps datagrams on the local network.",
    ),
    click.option(
        "--dialect",
        type=click.Choice(["java", "pycast"]),
        default="java",
        help="Wire format of the group.",
    ),
)
"""Add the options of a multicast group: `interface`, `ttl` and `dialect`."""
