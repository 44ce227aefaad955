"""Reference pages: every error, command and configuration key stands in its page."""

from __future__ import annotations

import importlib
import inspect
import re
import runpy
from pathlib import Path

import click

import skerry
import skerry.errors
from skerry.cli.config import SECTIONS, section_class
from skerry.cli.main import COMMANDS
from skerry.cli.main import skerry as command_line
from skerry.config import field_keys


def test_every_public_name_of_python_is_documented(root: Path) -> None:
    page = (root / "docs/reference/python.md").read_text(encoding="utf-8")
    generated = re.findall(r"^\.\. auto\w+:: (\S+)$", page, flags=re.MULTILINE)
    for name in generated:
        module, _, attribute = name.rpartition(".")
        assert attribute in importlib.import_module(module).__all__, name
    errors = {name for name in vars(skerry.errors) if name in skerry.__all__}
    words = set(re.findall(r"`(\w+)`", page))
    named = {name.removeprefix("skerry.") for name in generated} | words | errors
    assert set(skerry.__all__) - named == {"__version__"}


def test_every_error_is_documented_and_no_other(root: Path) -> None:
    page = (root / "docs/reference/errors.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `(\w+)`", page, flags=re.MULTILINE))
    errors = {
        name
        for name, value in vars(skerry.errors).items()
        if inspect.isclass(value) and issubclass(value, skerry.errors.SkerryError)
    }
    assert documented == errors


def test_the_reference_of_commands_equals_their_help(root: Path) -> None:
    """Refresh it with `.venv/bin/python tools/write_cli_reference.py`."""
    writer = runpy.run_path(str(root / "tools/write_cli_reference.py"))
    page = (root / "docs/reference/cli.md").read_text(encoding="utf-8")
    assert page == writer["reference"]()


def test_diagrams_of_state_machines_are_drawn_from_their_tables(root: Path) -> None:
    """Refresh the page with `.venv/bin/python tools/draw_machines.py`."""
    drawing = runpy.run_path(str(root / "tools/draw_machines.py"))
    page = (root / "docs/internals/state-machines.md").read_text(encoding="utf-8")
    assert page == drawing["page"]()


def test_every_command_has_a_help_text() -> None:
    context = click.Context(command_line)
    for name in COMMANDS:
        command = command_line.get_command(context, name)
        assert command is not None
        assert command.help, name


def test_every_configuration_key_is_documented_and_no_other(root: Path) -> None:
    page = (root / "docs/reference/config.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `([\w.]+)`", page, flags=re.MULTILINE))
    keys = {key for name in SECTIONS for key, _ in field_keys(name, section_class(name))}
    assert documented == keys
