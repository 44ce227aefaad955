"""`skerry context`: save nodes under names, and select the one that commands connect to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from skerry.cli.output import current_output, json_option
from skerry.cli.parameters import CheckedText, check_endpoint
from skerry.cli.saved_contexts import (
    SavedContext,
    SavedContexts,
    check_context_name,
    read_contexts,
)
from skerry.config import without_passwords
from skerry.errors import SkerryError

_FILE = click.Path(dir_okay=False)


def _complete_name(_context: click.Context, _parameter: click.Parameter, prefix: str) -> list[str]:
    try:
        known = read_contexts(os.environ).contexts
    except SkerryError:
        return []
    return sorted(name for name in known if name.startswith(prefix))


@click.group()
def context() -> None:
    """Save nodes and their credentials under names, and select one of them.

    A command connects to the first of: --node, --context, the context SKERRY_CONTEXT, the endpoint
    SKERRY_ENDPOINT or DOTS_ENDPOINT, the selected context, and the node of this computer. Programs
    that use `skerry.connect` do not read contexts.
    """


@context.command()
@click.argument("name", type=CheckedText(check_context_name))
@click.argument("node", metavar="URI", type=CheckedText(check_endpoint))
@click.option("--secret-file", type=_FILE, help="File whose only line is the secret of the node.")
@click.option("--ca", type=_FILE, help="Authorities (PEM) that sign the certificate of the node.")
@click.option("--cert", type=_FILE, help="Client certificate (PEM).")
@click.option("--key", type=_FILE, help="Private key of --cert (PEM).")
@click.option("--use", "is_selected", is_flag=True, help="Select the context.")
@click.option("--replace", is_flag=True, help="Replace a context that has this name.")
def add(*, name: str, node: str, is_selected: bool, replace: bool, **files: str | None) -> None:
    """Save a node under a name.

    \b
    Examples:
      skerry context add harbour harbour.example:11235 --use
      skerry context add bridge tls://bridge.example --ca ca.pem --secret-file secret
    """
    saved = read_contexts(os.environ)
    if name in saved.contexts and not replace:
        error = SkerryError(f"there is a context {name} already")
        error.hint = f"`skerry context add {name} URI --replace` replaces it"
        raise error
    # The command may run in any folder later.
    paths = {what: file and str(Path(file).absolute()) for what, file in files.items()}
    saved.contexts[name] = SavedContext(node=node, **paths)
    if is_selected:
        saved.selected = name
    saved.save()
    output = current_output()
    if is_selected:
        output.note(f"commands connect to {without_passwords(node)} from now on")
        _warn_of_environment(name)
    else:
        output.note(f"`skerry context use {name}` selects it")


@context.command()
@click.argument("name", required=False, shell_complete=_complete_name)
@click.option("--none", is_flag=True, help="Select no context.")
def use(*, name: str | None, none: bool) -> None:
    """Select the context of commands that name no node.

    \b
    Examples:
      skerry context use harbour
      skerry context use --none
    """
    if (name is None) != none:
        raise click.UsageError("give the NAME of a context, or --none")
    saved = read_contexts(os.environ)
    output = current_output()
    if name is not None:
        node = saved.named(name).node
        output.note(f"commands connect to {without_passwords(node)} from now on")
        _warn_of_environment(name)
    saved.selected = name
    saved.save()


@context.command("list")
@json_option
def list_contexts(*, as_json: bool) -> None:
    """List the contexts; the selected one has a star."""
    saved = read_contexts(os.environ)
    output = current_output()
    if as_json:
        for name in sorted(saved.contexts):
            output.json_line(_row(saved, name))
    elif saved.contexts:
        rows = [
            ("*" if name == saved.selected else "", name, without_passwords(found.node))
            for name, found in sorted(saved.contexts.items())
        ]
        output.table(("", "name", "node"), rows)
    else:
        output.note("no contexts are saved; `skerry context add NAME URI` saves one")


@context.command()
@click.argument("name", required=False, shell_complete=_complete_name)
@json_option
def show(*, name: str | None, as_json: bool) -> None:
    """Show a context, by default the selected one."""
    saved = read_contexts(os.environ)
    output = current_output()
    chosen = name or saved.selected
    if chosen is None:
        error = SkerryError("no context is selected")
        error.hint = "give a NAME, or select one with `skerry context use NAME`"
        raise error
    saved.named(chosen)
    row = _row(saved, chosen)
    if as_json:
        output.json_line(row)
    else:
        output.table(("key", "value"), [(key, value) for key, value in row.items() if value])


@context.command()
@click.argument("name", shell_complete=_complete_name)
def remove(*, name: str) -> None:
    """Remove a context. If it is selected, none is selected then."""
    saved = read_contexts(os.environ)
    saved.named(name)
    del saved.contexts[name]
    if saved.selected == name:
        saved.selected = None
        current_output().note("no context is selected now")
    saved.save()


def _row(saved: SavedContexts, name: str) -> dict[str, Any]:
    found = saved.contexts[name]
    return {
        "name": name,
        "node": without_passwords(found.node),
        "secret_file": found.secret_file,
        "ca": found.ca,
        "cert": found.cert,
        "key": found.key,
        "selected": name == saved.selected,
    }


def _warn_of_environment(name: str) -> None:
    for variable in ("SKERRY_CONTEXT", "SKERRY_ENDPOINT", "DOTS_ENDPOINT"):
        if os.environ.get(variable) not in (None, "", name):
            current_output().warning(
                f"{variable} is set and takes precedence over the selected context"
            )
