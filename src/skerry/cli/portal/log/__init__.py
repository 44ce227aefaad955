"""`skerry portal log`: work with Goby logs.

options    options that these commands share
read       `log info`, `log cat`: summarize and print a log
convert    `log convert`: logs to text and JSON, and back
play       `log play`: publish the entries of a log in a portal
"""

from __future__ import annotations

import click

from skerry.cli.portal.log.convert import convert
from skerry.cli.portal.log.play import play
from skerry.cli.portal.log.read import cat, info

__all__ = ["cat", "convert", "info", "log", "play"]


@click.group()
def log() -> None:
    """Read, convert and play Goby logs (`.goby`).

    A damaged log is read past its damage: only the entries that are hit are lost, and reported.
    """


for _command in (cat, convert, info, play):
    log.add_command(_command)
