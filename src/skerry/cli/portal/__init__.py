"""`skerry portal`: exchange publications with Goby programs.

options    options of commands that are clients of a portal
run        `portal run`: a broker for Goby programs
vehicle    `portal terminate`, `portal coroner`: end programs, and watch their health
"""

from __future__ import annotations

import click

from skerry.cli.portal.run import run
from skerry.cli.portal.vehicle import coroner, terminate

__all__ = ["coroner", "portal", "run", "terminate"]


@click.group()
def portal() -> None:
    """A portal for programs of Goby: their broker, and clients of it."""


for _command in (coroner, run, terminate):
    portal.add_command(_command)
