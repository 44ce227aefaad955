"""`skerry portal run`: a broker for Goby programs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import click

from skerry.cli.output import current_output, json_option_of
from skerry.cli.parameters import CheckedText, check_endpoint


@click.command()
@click.option(
    "--cfg",
    "cfg",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Configuration file of Goby's daemon, in the text format of Protocol Buffers. Its fields"
    " take precedence over those of section `portal`, and options over both.",
)
@click.option("--platform", metavar="NAME", help="Name of the vehicle. Default: that of Goby.")
@click.option(
    "--transport",
    type=click.Choice(["ipc", "tcp"]),
    help="Unix sockets of this computer, or TCP. Default: ipc.",
)
@click.option(
    "--socket-name",
    metavar="PATH",
    help="Path of the IPC sockets without their suffixes. Default: that of Goby.",
)
@click.option(
    "--tcp-port",
    type=click.IntRange(1, 65535),
    metavar="N",
    help="TCP port of the manager. Default: 11144.",
)
@click.option(
    "--listen",
    metavar="ADDRESS",
    help="Address at which TCP sockets listen, * for all. Default: 127.0.0.1, or * with --cfg.",
)
@click.option(
    "--require",
    "required",
    multiple=True,
    metavar="NAME",
    help="Client that must be ready before any client publishes; may be repeated. Default: none.",
)
@click.option(
    "--filter",
    "filter_",
    is_flag=True,
    help="Check each publication in Python, and drop malformed ones, which would end programs of"
    " Goby. Default: pass all on, in C.",
)
@click.option(
    "--node",
    metavar="URI",
    type=CheckedText(check_endpoint),
    help="Endpoint of the node with whose space the mapping in section `portal.mapping` exchanges"
    " objects. Default: the node of this computer.",
)
@click.option(
    "--metrics",
    metavar="HOST:PORT|off",
    help="Address at which metrics and health are served. Default: off.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Lowest level that is logged. Default: info.",
)
@json_option_of("Print one JSON object with the endpoint once the portal listens, and log as JSON.")
def run(*, cfg: Path | None, **given: Any) -> None:
    """Run a portal until Ctrl-C, SIGTERM, or a request of a Goby program to terminate.

    It takes the place of Goby's daemon: programs of Goby connect to it unchanged. GOBY_INTERPROCESS
    gives fields that no file or option gives. All options can also be set in section `portal` of
    the configuration.

    \b
    Examples:
      skerry portal run
      skerry portal run --platform auv --require pilot --require logger
      skerry portal run --cfg gobyd.pb.cfg
      skerry --config mapping.toml portal run --node tcp://127.0.0.1:11235
      skerry portal run --transport tcp --listen '*' --metrics 127.0.0.1:11238
    """
    import sys

    from skerry.apps.portal.config import PortalProgramConfig, goby_fields
    from skerry.cli.config import load_section
    from skerry.errors import SkerryError
    from skerry.observe.logs import written_to
    from skerry.runtime.loops import run_loop

    try:
        from skerry.apps.portal.program import run_portal
    except ImportError as error:
        missing = SkerryError(f"portals need a package that is not installed: {error.name}")
        missing.hint = "install skerry[portal]"
        raise missing from error

    as_json: bool = given.pop("as_json")
    fields = goby_fields(cfg, os.environ)
    flags: dict[str, tuple[str, object]] = {
        f"portal.{name}": found for name, found in fields.values.items()
    }
    for key, (flag, name) in _FLAGS.items():
        if given[name]:
            flags[key] = (flag, given[name])
    if as_json:
        flags["portal.log.form"] = ("--json", "json")
    config = load_section("portal", PortalProgramConfig, flags).value
    output = current_output()
    with written_to(sys.stderr, level=config.log.level, form=config.log.form):
        report = _log_line if config.log.form == "json" else output.note
        if fields.ignored:
            report(f"a part of {cfg} is ignored: {fields.ignored}")

        def ready(manager: str, pages: str | None) -> None:
            output.json_line(name=config.name, manager=manager, metrics=pages or "off")

        run_loop(run_portal(config, report=report, ready=ready if as_json else None))


_FLAGS: Final = {
    "portal.filter": ("--filter", "filter_"),
    "portal.listen": ("--listen", "listen"),
    "portal.log.level": ("--log-level", "log_level"),
    "portal.mapping.node": ("--node", "node"),
    "portal.metrics": ("--metrics", "metrics"),
    "portal.platform": ("--platform", "platform"),
    "portal.required_clients": ("--require", "required"),
    "portal.socket_name": ("--socket-name", "socket_name"),
    "portal.tcp_port": ("--tcp-port", "tcp_port"),
    "portal.transport": ("--transport", "transport"),
}
"""Configuration keys that have an option, and the arguments of the options."""


def _log_line(text: str) -> None:
    """Log a message, so that all lines on stderr have the form of the log."""
    import logging

    logging.getLogger("skerry.portal").info(text)
