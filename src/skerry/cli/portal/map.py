"""`skerry portal map`: map between a portal that runs already and a space."""

from __future__ import annotations

from typing import Any

import click

from skerry.cli.output import current_output
from skerry.cli.parameters import CheckedText, check_endpoint
from skerry.cli.portal.options import client_config, portal_options


@click.command("map")
@click.option(
    "--node",
    metavar="URI",
    type=CheckedText(check_endpoint),
    help="Endpoint of the node. Default: SKERRY_ENDPOINT, DOTS_ENDPOINT, or the node of this"
    " computer.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Lowest level that is logged. Default: info.",
)
@portal_options
def map_(*, node: str | None, log_level: str | None, chosen: dict[str, Any]) -> None:
    """Map publications of a portal to objects of a space, and back, until Ctrl-C or SIGTERM.

    The portal runs elsewhere: it is that of Goby's daemon, or another `skerry portal run`, which
    can also map by itself. The rules are in section `portal.mapping` of the configuration.

    \b
    Examples:
      skerry --config mapping.toml portal map --platform auv
      skerry --config mapping.toml portal map --transport tcp --node tcp://127.0.0.1:11235
    """
    import sys

    from skerry.apps.portal.config import PortalProgramConfig
    from skerry.apps.portal.program import run_mapping
    from skerry.cli.config import load_section
    from skerry.observe.logs import written_to
    from skerry.runtime.loops import run_loop

    flags = {
        "portal.mapping.node": ("--node", node),
        "portal.log.level": ("--log-level", log_level),
    }
    config = load_section("portal", PortalProgramConfig, flags).value
    if not config.mapping.rules:
        error = click.UsageError("there is nothing to map: the configuration has no rules")
        error.hint = "add [[portal.mapping.rules]], and name the file with `skerry --config FILE`"  # type: ignore[attr-defined]
        raise error
    portal = client_config(chosen)
    with written_to(sys.stderr, level=config.log.level, form=config.log.form):
        run_loop(run_mapping(config.mapping, portal, report=current_output().note))
