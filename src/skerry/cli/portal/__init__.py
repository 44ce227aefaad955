"""`skerry portal`: exchange publications with Goby programs.

options    options of commands that are clients of a portal
run        `portal run`: a broker for Goby programs
map        `portal map`: map between a portal that runs already and a space
vehicle    `portal terminate`, `portal coroner`: end programs, and watch their health
log        `portal log`: work with Goby logs
"""

from __future__ import annotations

import click

from skerry.cli.portal.log import log
from skerry.cli.portal.map import map_
from skerry.cli.portal.run import run
from skerry.cli.portal.vehicle import coroner, terminate

__all__ = ["coroner", "log", "map_", "portal", "run", "terminate"]


@click.group()
def portal() -> None:
    """A portal for programs of Goby: their broker, and clients of it."""


for _command in (coroner, log, map_, run, terminate):
    portal.add_command(_command)
