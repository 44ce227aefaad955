"""`skerry version`: the version of skerry and of its environment."""

from __future__ import annotations

import platform

import click

from skerry import build_info
from skerry.cli.output import current_output, json_option


@click.command()
@json_option
def version(*, as_json: bool) -> None:
    """Print the version of skerry and of Python, and whether hot modules are compiled."""
    output = current_output()
    mode = build_info.mode()
    if as_json:
        output.json_line(
            version=build_info.version(),
            mode=mode,
            compiled_modules=build_info.compiled_modules(),
            python=platform.python_version(),
            platform=platform.platform(),
        )
        return
    python = f"{platform.python_implementation()} {platform.python_version()}"
    output.line(f"skerry {build_info.version()} ({mode}), {python}, {platform.platform()}")
