"""`skerry config show`, and the settings commands run with."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skerry.cli.config import SECTIONS, section_class

Run = Callable[..., Any]


def rows(done: Any) -> dict[str, tuple[object, str]]:
    parsed = [json.loads(line) for line in done.out.splitlines()]
    return {row["key"]: (row["value"], row["origin"]) for row in parsed}


def test_every_section_is_a_frozen_dataclass_with_defaults() -> None:
    for name in SECTIONS:
        cls = section_class(name)
        assert dataclasses.is_dataclass(cls)
        value = cls()
        first = dataclasses.fields(cls)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, first, None)


def test_show_prints_defaults_where_nothing_was_given(run: Run) -> None:
    assert rows(run("config", "show", "--json"))["cli.color"] == ("auto", "default")


def test_show_distinguishes_flag_environment_and_file(
    run: Run, clean_place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("skerry.toml").write_text('[cli]\ncolor = "never"\nprogress = false\n', encoding="utf-8")
    file = f"file {clean_place / 'skerry.toml'}"
    show = ("config", "show", "--json")
    seen = rows(run(*show))
    assert (seen["cli.color"], seen["cli.progress"]) == (("never", file), (False, file))
    assert seen["node.name"][1] == "default"
    monkeypatch.setenv("SKERRY_CLI__COLOR", "always")
    assert rows(run(*show))["cli.color"] == ("always", "environment SKERRY_CLI__COLOR")
    assert rows(run("--color", "auto", *show))["cli.color"] == ("auto", "flag --color")


def test_show_prints_a_table_with_values_as_in_the_file(run: Run) -> None:
    lines = [line.split() for line in run("config", "show").out.splitlines()]
    assert lines[0] == ["key", "value", "origin"]
    assert ["cli.color", '"auto"', "default"] in lines
    assert ["cli.progress", "true", "default"] in lines


def test_named_file_is_read_instead_of_the_one_here(run: Run, clean_place: Path) -> None:
    Path("skerry.toml").write_text("[cli]\nprogress = false\n", encoding="utf-8")
    Path("other.toml").write_text('[cli]\ncolor = "never"\n', encoding="utf-8")
    seen = rows(run("--config", "other.toml", "config", "show", "--json"))
    assert seen["cli.color"] == ("never", "file other.toml")
    assert seen["cli.progress"] == (True, "default")


def test_mistakes_in_the_configuration_stop_every_command(run: Run) -> None:
    Path("skerry.toml").write_text('[cli]\ncolour = "never"\n', encoding="utf-8")
    done = run("version")
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines()[1] == "hint:  did you mean cli.color?"


def test_color_of_the_configuration_is_used(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKERRY_CLI__COLOR", "always")
    assert "\x1b[" in run("config", "show").out


def test_show_gives_tables_by_index_and_hides_secrets(run: Run) -> None:
    Path("skerry.toml").write_text(
        "[[node.admission.authentication]]\nclient = 'tracker'\nsecret = 'sesame'\n"
        "[[node.admission.permission]]\nverbs = ['publish', 'clear']\n",
        encoding="utf-8",
    )
    done = run("config", "show", "--json")
    seen = rows(done)
    assert seen["node.admission.authentication[0].client"][0] == "tracker"
    assert seen["node.admission.authentication[0].secret"][0] == "********"
    assert seen["node.admission.permission[0].verbs"][0] == ["publish", "clear"]
    table = run("--color", "never", "config", "show").out
    assert "sesame" not in table + done.out
    assert "node.admission.permission[0].verbs" in table


def test_show_prints_a_choice_as_in_the_file(run: Run) -> None:
    (line,) = [x for x in run("config", "show").out.splitlines() if "node.storage.sync " in x]
    assert line.split()[1] == '"commit"'


def test_show_hides_the_password_of_a_storage(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKERRY_NODE__STORAGE__URL", "postgresql://ann:sesame@db:5432/fleet")
    for arguments in (("config", "show"), ("config", "show", "--json")):
        done = run(*arguments)
        assert "sesame" not in done.out + done.err
        assert "postgresql://ann:********@db:5432/fleet" in done.out


def test_file_here_that_everybody_can_change_is_refused(run: Run, clean_place: Path) -> None:
    file = clean_place / "skerry.toml"
    file.write_text("[cli]\nprogress = false\n", encoding="utf-8")
    file.chmod(0o666)
    done = run("config", "show")
    assert done.code == 1
    assert "every user of this computer can change it" in done.err
    assert f"chmod o-w {file}" in done.err
    named = run("--config", str(file), "config", "show", "--json")
    assert rows(named)["cli.progress"] == (False, f"file {file}"), "it was chosen"


def test_file_here_of_another_user_is_refused(
    run: Run, clean_place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = clean_place / "skerry.toml"
    file.write_text("[cli]\nprogress = false\n", encoding="utf-8")
    if os.geteuid() == 0:
        monkeypatch.delenv("SUDO_UID", raising=False)
        os.chown(file, 4711, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
    done = run("config", "show")
    assert done.code == 1
    assert "it belongs to another user" in done.err
