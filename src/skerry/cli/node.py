"""`skerry node`: run a node on this computer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from skerry.cli.output import current_output, json_option_of
from skerry.cli.parameters import (
    CheckedText,
    check_endpoint,
    check_metrics,
    check_seed,
    check_storage,
)

if TYPE_CHECKING:
    from skerry.apps.node.config import NodeConfig


@click.group()
def node() -> None:
    """A node receives updates, keeps the current objects and notifies subscribers."""


@node.command()
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Configuration file, as with `skerry --config FILE node run`.",
)
@click.option(
    "--listen",
    "listen",
    multiple=True,
    metavar="URI",
    type=CheckedText(check_endpoint),
    help="Endpoint to listen at: tcp://host:port, tcp-v1://host:port, tls://host:port,"
    " ws://host:port, wss://host:port or uds:/path; may be repeated. Default: the three endpoints"
    " above.",
)
@click.option("--name", help="Name of the node, which clients receive. Default: skerry.")
@click.option(
    "--system",
    metavar="NAME",
    help="Name of the system. Its nodes find each other by multicast, form one picture and exchange"
    " messages. Default: a node alone.",
)
@click.option(
    "--seed",
    "seed",
    multiple=True,
    metavar="HOST[:PORT]",
    type=CheckedText(check_seed),
    help="Host of another node of the system, where multicast is not possible; may be repeated."
    " All nodes may have the same list. Default: a search by multicast.",
)
@click.option(
    "--node-type",
    metavar="NAME",
    help="Node type of this node: one of the configuration, or `node` (reached by multicast) or"
    " `unicast`. Default: the first type, or `unicast` with --seed.",
)
@click.option(
    "--address",
    metavar="ADDRESS",
    help="Address or interface at which other nodes reach this one: 192.168.1.5, 192.168.1.*, eth0"
    " or 127.0.0.1 for nodes of this computer, with or without :PORT. Default: the interface that"
    " the computer uses for multicast.",
)
@click.option(
    "--storage",
    metavar="URL",
    type=CheckedText(check_storage),
    help="Storage of persistent objects: sqlite:PATH, postgresql://user@host/database, or none."
    " Default: an SQLite file in the state folder.",
)
@click.option(
    "--metrics",
    metavar="HOST:PORT|off",
    type=CheckedText(check_metrics),
    help="Address at which metrics and health are served, or off. Default: 127.0.0.1:11237.",
)
@click.option(
    "--record",
    metavar="DIR",
    help="Record all updates that cross the node into this folder. Default: no recording.",
)
@click.option(
    "--tls-cert",
    type=click.Path(path_type=Path),
    help="Certificate (PEM) for tls:// and wss:// endpoints.",
)
@click.option("--tls-key", type=click.Path(path_type=Path), help="Private key of --tls-cert (PEM).")
@click.option(
    "--tls-ca",
    type=click.Path(path_type=Path),
    help="Authorities (PEM) that sign client certificates. If given, clients need a certificate.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Lowest level that is logged. Default: info.",
)
@click.option(
    "--log-form",
    type=click.Choice(["auto", "text", "json"]),
    help="Form of log lines. Default: auto, which is text on a terminal and JSON elsewhere.",
)
@json_option_of("Print one JSON object with the endpoints once the node listens, and log as JSON.")
def run(*, file: Path | None, **given: Any) -> None:
    """Run a node until Ctrl-C or SIGTERM. DOTS programs can connect to it unchanged.

    Without --listen, the node accepts clients of this computer only: on a Unix socket in the
    runtime folder, on TCP port 11235 for the current framing and on port 11234 for the old one.
    All options can also be set in section `node` of the configuration.

    \b
    Examples:
      skerry node run
      skerry node run --listen tcp://127.0.0.1:4000 --listen uds:/run/skerry/node.sock
      skerry node run --listen tls://0.0.0.0 --tls-cert node.pem --tls-key node.key
      skerry node run --system harbour
      skerry node run --system harbour --name crane --seed server-1 --seed server-2
      skerry node run --system test --address 127.0.0.1 --listen tcp://127.0.0.1:0
    """
    import sys

    from skerry.apps.node.config import NodeConfig
    from skerry.apps.node.program import run_node
    from skerry.cli.config import load_section, read_settings, reload_section, settings_file
    from skerry.observe.logs import written_to
    from skerry.runtime.collector import CalmCollector
    from skerry.runtime.loops import run_loop

    context = click.get_current_context()
    if file is not None:
        read_settings(context, file=file, flags={})
    as_json: bool = given.pop("as_json")
    if as_json:
        given["log_form"] = given["log_form"] or "json"
    flags = {
        key: (flag, given[flag.removeprefix("--").replace("-", "_")] or None)
        for key, flag in _FLAGS.items()
    }
    config = load_section("node", NodeConfig, flags).value
    with written_to(sys.stderr, level=config.log.level, form=config.log.form):
        report = _log_line if config.log.form == "json" else current_output().note
        warn_of_readers(settings_file(context), config)
        CalmCollector().begin()
        output = current_output()

        def reread() -> NodeConfig:
            return reload_section(context, "node", NodeConfig, flags).value

        def ready(endpoints: list[str], pages: str | None) -> None:
            metrics = "off" if config.metrics == "off" else pages
            output.json_line(name=config.name, listen=endpoints, metrics=metrics)

        run_loop(
            run_node(config, report=report, reread=reread, ready=ready if as_json else None),
            config.loop,
        )


_FLAGS: Final = {
    "node.listen": "--listen",
    "node.log.form": "--log-form",
    "node.log.level": "--log-level",
    "node.metrics": "--metrics",
    "node.name": "--name",
    "node.peers.control": "--address",
    "node.peers.seeds": "--seed",
    "node.peers.type": "--node-type",
    "node.recording.folder": "--record",
    "node.storage.url": "--storage",
    "node.system": "--system",
    "node.tls.ca": "--tls-ca",
    "node.tls.cert": "--tls-cert",
    "node.tls.key": "--tls-key",
}
"""Configuration keys that have an option."""


def warn_of_readers(file: Path | None, config: NodeConfig) -> None:
    """Warn if all users of this computer can change the configuration file, or read its secrets."""
    import logging
    import stat

    from skerry.config import without_passwords

    if file is None:
        return
    # Warnings, not errors: a container may have no other users.
    log = logging.getLogger("skerry.node")
    mode, facts = file.stat().st_mode, {"file": str(file), "hint": f"chmod 600 {file}"}
    url = config.storage.url
    has_secrets = url != without_passwords(url) or any(
        rule.secret is not None for rule in config.admission.authentication
    )
    if has_secrets and mode & stat.S_IROTH:
        log.warning(
            "all users of this computer can read the secrets in the configuration", extra=facts
        )
    if mode & stat.S_IWOTH:
        log.warning("all users of this computer can change the configuration", extra=facts)


def _log_line(text: str) -> None:
    """Log a message, so that all lines on stderr have the form of the log."""
    import logging

    logging.getLogger("skerry.node").info(text)
