"""`skerry node`: a node on this computer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from skerry.cli.output import current_output
from skerry.cli.parameters import CheckedText, check_endpoint, check_metrics, check_storage

if TYPE_CHECKING:
    from skerry.apps.node.config import NodeConfig

__all__ = ["node", "warn_of_readers"]


@click.group()
def node() -> None:
    """A node: takes what programs publish, keeps what is current, tells who asked."""


@node.command()
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Configuration file; the same as `skerry --config FILE node run`.",
)
@click.option(
    "--listen",
    "listen",
    multiple=True,
    metavar="URI",
    type=CheckedText(check_endpoint),
    help="Where to take clients: tcp://host:port, tcp-v1://host:port, tls://host:port,"
    " ws://host:port or uds:/path. Replaces the usual places.",
)
@click.option("--name", help="What it tells its clients; skerry if not given.")
@click.option(
    "--system",
    metavar="NAME",
    help="The system it is a node of. Messages then reach all its nodes, by multicast.",
)
@click.option(
    "--storage",
    metavar="URL",
    type=CheckedText(check_storage),
    help="Where persistent objects are stored: sqlite:PATH, postgresql://..., or none.",
)
@click.option(
    "--metrics",
    metavar="HOST:PORT|off",
    type=CheckedText(check_metrics),
    help="Where metrics and health are served; 127.0.0.1:11237 if not given.",
)
@click.option("--record", metavar="DIR", help="Record all that crosses it into this folder.")
@click.option(
    "--tls-cert", type=click.Path(path_type=Path), help="Certificate for tls:// and wss://."
)
@click.option("--tls-key", type=click.Path(path_type=Path), help="Its private key.")
@click.option(
    "--tls-ca",
    type=click.Path(path_type=Path),
    help="Authorities of clients, which then need a certificate.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="The least important that is logged; info if not given.",
)
@click.option(
    "--log-form",
    type=click.Choice(["auto", "text", "json"]),
    help="Log lines as text, as JSON, or as text on a terminal only.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="When clients can come in, one JSON object that says where; and log lines as JSON.",
)
def run(*, file: Path | None, **given: Any) -> None:
    """Run a node until Ctrl-C or SIGTERM; programs that speak DOTS can use it as it is.

    Without --listen it takes clients of this computer only: by a Unix socket in the runtime
    folder, and at the usual ports, 11235 for the current framing and 11234 for the old one.
    Everything can also be set in the configuration, section `node`.

    \b
    Examples:
      skerry node run
      skerry node run --listen tcp://127.0.0.1:4000 --listen uds:/run/skerry/node.sock
      skerry node run --listen tls://0.0.0.0 --tls-cert node.pem --tls-key node.key
      skerry node run --system harbour
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
    flags = {key: (flag, given[_argument(flag)] or None) for key, flag in _FLAGS.items()}
    config = load_section("node", NodeConfig, flags).value
    with written_to(sys.stderr, level=config.log.level, form=config.log.form):
        tell = _log_line if config.log.form == "json" else current_output().note
        warn_of_readers(settings_file(context), config)
        CalmCollector().begin()
        output = current_output()

        def reread() -> NodeConfig:
            return reload_section(context, "node", NodeConfig, flags).value

        def ready(places: list[str], pages: str | None) -> None:
            metrics = "off" if config.metrics == "off" else pages
            output.json_line({"name": config.name, "listen": places, "metrics": metrics})

        run_loop(
            run_node(config, tell=tell, reread=reread, ready=ready if as_json else None),
            config.loop,
        )


_FLAGS: Final = {
    "node.listen": "--listen",
    "node.log.form": "--log-form",
    "node.log.level": "--log-level",
    "node.metrics": "--metrics",
    "node.name": "--name",
    "node.recording.folder": "--record",
    "node.storage.url": "--storage",
    "node.system": "--system",
    "node.tls.ca": "--tls-ca",
    "node.tls.cert": "--tls-cert",
    "node.tls.key": "--tls-key",
}
"""Keys of the configuration that can be given on the command line."""


def warn_of_readers(file: Path | None, config: NodeConfig) -> None:
    """Warn if everybody on this computer can change a configuration file, or read its secrets."""
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
            "everybody on this computer can read the secrets in the configuration", extra=facts
        )
    if mode & stat.S_IWOTH:
        log.warning("everybody on this computer can change the configuration", extra=facts)


def _argument(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def _log_line(text: str) -> None:
    """What is told to people, where the log is for programs: all lines are of one form then."""
    import logging

    logging.getLogger("skerry.node").info(text)
