"""`skerry config`: the effective configuration and the origin of each value."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from skerry.cli.output import current_output, json_option
from skerry.config import Loaded, Sources, config_file, load, read_sources, settings_of
from skerry.errors import SkerryError

T = TypeVar("T")

SECTIONS: Final[Mapping[str, str]] = {
    "cli": "skerry.cli.output:CliConfig",
    "node": "skerry.apps.node.config:NodeConfig",
    "pipeline": "skerry.cli.pipeline.settings:PipelineConfig",
    "portal": "skerry.apps.portal.config:PortalProgramConfig",
    "recorder": "skerry.apps.recorder.config:RecorderConfig",
}
"""Sections of the configuration and their dataclasses, which are imported on use."""

_SETTINGS: Final = "skerry.settings"
_ORIGINS: Final = "skerry.settings.origins"
"""The file that was read, whether it was found rather than named, and the flags. The file is kept
because a search might find another one later."""


@click.group()
def config() -> None:
    """Show the configuration."""


@config.command()
@json_option
def show(*, as_json: bool) -> None:
    """Print each configuration key with its value and origin.

    A flag takes precedence over the environment (SKERRY_SECTION__KEY), the environment over the
    file, and the file over the default.
    """
    output = current_output()
    rows = [
        row
        for section in SECTIONS
        for row in settings_of(section, load_section(section, section_class(section)))
    ]
    if as_json:
        for key, value, origin in rows:
            output.json_line(key=key, value=value, origin=origin)
        return
    output.table(("key", "value", "origin"), [(key, _shown(value), o) for key, value, o in rows])


def read_settings(
    context: click.Context, *, file: Path | None, flags: Mapping[str, tuple[str, object]]
) -> None:
    """Read file and environment once, for all sections that the command loads."""
    path = config_file(file, environ=os.environ, folder=_current_folder(), home=Path.home())
    is_found = file is None and not os.environ.get("SKERRY_CONFIG")
    context.meta[_SETTINGS] = _read(path, is_found=is_found).with_flags(flags)
    context.meta[_ORIGINS] = (path, is_found, flags)


def reload_section(
    context: click.Context, section: str, cls: type[T], flags: Mapping[str, tuple[str, object]]
) -> Loaded[T]:
    """Read a section again, from the same file and flags."""
    path, is_found, general = context.meta[_ORIGINS]
    sources = _read(path, is_found=is_found)
    return load(section, cls, sources.with_flags(general).with_flags(flags))


def _read(path: Path | None, *, is_found: bool) -> Sources:
    """Read file and environment. A file that was found must belong to the user."""

    def check(file: Path, found: os.stat_result) -> None:
        # Imported here: most commands find no file.
        from skerry.runtime.system_folders import check_config

        check_config(file, found, os.environ)

    return read_sources(
        sections=tuple(SECTIONS), file=path, environ=os.environ, check=check if is_found else None
    )


def load_section(
    section: str, cls: type[T], flags: Mapping[str, tuple[str, object]] | None = None
) -> Loaded[T]:
    """A section for the running command; `flags` maps a key to the flag's name and value."""
    settings: Sources = click.get_current_context().meta[_SETTINGS]
    return load(section, cls, settings.with_flags(flags or {}))


def settings_file(context: click.Context) -> Path | None:
    path: Path | None = context.meta[_ORIGINS][0]
    return path


def section_class(section: str) -> type[Any]:
    module, _, name = SECTIONS[section].partition(":")
    found: type[Any] = getattr(import_module(module), name)
    return found


def _current_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        error = SkerryError("the current folder does not exist any more")
        error.hint = "change to another folder"
        raise error from None


def _shown(value: object) -> str:
    """A value in the notation of the configuration file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum):
        return _shown(value.value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(_shown, value))}]"
    return f'"{value}"' if isinstance(value, str | Path) else str(value)
