"""`skerry portal`: exchange publications with Goby programs.

options    options of commands that are clients of a portal
run        `portal run`: a broker for Goby programs
log        `portal log`: work with Goby logs
"""

from __future__ import annotations

import click

from skerry.cli.portal.log import log
from skerry.cli.portal.run import run

__all__ = ["log", "portal", "run"]


@click.group()
def portal() -> None:
    """A portal for programs of Goby: their broker, and clients of it."""


for _command in (log, run):
    portal.add_command(_command)
