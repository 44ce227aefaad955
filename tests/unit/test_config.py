"""Configuration: who decides about a value, what is remembered, and what is refused."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from skerry import limits
from skerry.config import Loaded, Sources, config_file, field_keys, load, read_sources
from skerry.errors import ConfigError


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerConfig:
    group: str = "none"
    delay_ms_max: int = 20

    def __post_init__(self) -> None:
        if self.delay_ms_max <= 0:
            raise ValueError("delay_ms_max must be more than 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    name: str = "node"
    rate: float = 1.0
    is_open: bool = False
    level: Level = Level.LOW
    color: Literal["red", "blue"] = "red"
    seeds: tuple[int, ...] = ()
    folder: Path | None = None
    inner: InnerConfig = field(default_factory=InnerConfig)


def node(
    tmp_path: Path, text: str = "", environ: dict[str, str] | None = None, **flags: object
) -> Loaded[NodeConfig]:
    file = tmp_path / "skerry.toml"
    file.write_text(text, encoding="utf-8")
    sources = read_sources(sections=("node", "other"), file=file, environ=environ or {})
    given = {f"node.{name}": (f"--{name}", value) for name, value in flags.items()}
    return load("node", NodeConfig, sources.with_flags(given))


def refusal(tmp_path: Path, text: str = "", **environ: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        node(tmp_path, text, environ)
    return caught.value


def test_without_anything_all_values_are_defaults(tmp_path: Path) -> None:
    loaded = node(tmp_path)
    assert loaded.value == NodeConfig()
    assert set(loaded.origins.values()) == {"default"}
    assert list(loaded.origins) == [key for key, _ in field_keys("node", NodeConfig)]


def test_flag_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    text = '[node]\nname = "file"\nrate = 2\nlevel = "high"\n'
    environ = {"SKERRY_NODE__NAME": "environment", "SKERRY_NODE__RATE": "3"}
    loaded = node(tmp_path, text, environ, name="flag", color=None)
    assert (loaded.value.name, loaded.value.rate, loaded.value.level) == ("flag", 3.0, Level.HIGH)
    assert loaded.origins["node.name"] == "flag --name"
    assert loaded.origins["node.rate"] == "environment SKERRY_NODE__RATE"
    assert loaded.origins["node.level"] == f"file {tmp_path / 'skerry.toml'}"
    assert loaded.origins["node.color"] == "default"


def test_flag_may_be_an_element_of_the_enum_or_its_value(tmp_path: Path) -> None:
    assert node(tmp_path, level=Level.HIGH).value.level is Level.HIGH
    assert node(tmp_path, level="high").value.level is Level.HIGH


def test_nested_sections_are_filled_from_file_and_environment(tmp_path: Path) -> None:
    text = '[node.inner]\ngroup = "239.192.7.1:4711"\n'
    loaded = node(tmp_path, text, {"SKERRY_NODE__INNER__DELAY_MS_MAX": "7"})
    assert loaded.value.inner == InnerConfig(group="239.192.7.1:4711", delay_ms_max=7)
    assert loaded.origins["node.inner.delay_ms_max"].startswith("environment")


@pytest.mark.parametrize(
    ("name", "text", "environment", "expected"),
    [
        ("is_open", "true", "true", True),
        ("is_open", "true", "1", True),
        ("is_open", "false", "FALSE", False),
        ("rate", "2", "2", 2.0),
        ("rate", "2.5", "2.5", 2.5),
        ("level", '"high"', "high", Level.HIGH),
        ("color", '"blue"', "blue", "blue"),
        ("seeds", "[1, 2]", "1, 2", (1, 2)),
        ("seeds", "[]", "", ()),
        ("folder", '"a/b"', "a/b", Path("a/b")),
        ("name", '"7"', "7", "7"),
    ],
)
def test_file_and_environment_give_the_same_value(
    tmp_path: Path, name: str, text: str, environment: str, expected: object
) -> None:
    by_file = node(tmp_path, f"[node]\n{name} = {text}\n")
    by_environment = node(tmp_path, "", {f"SKERRY_NODE__{name.upper()}": environment})
    assert getattr(by_file.value, name) == expected
    assert getattr(by_environment.value, name) == expected


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("is_open", "1", "true or false"),
        ("is_open", '"true"', "true or false"),
        ("rate", '"fast"', "a number"),
        ("rate", "true", "a number"),
        ("level", '"middle"', "'low', 'high'"),
        ("level", '["low"]', "'low', 'high'"),
        ("level", "1", "'low', 'high'"),
        ("color", '["red"]', "'red', 'blue'"),
        ("color", '"green"', "'red', 'blue'"),
        ("seeds", "[1, true]", "a whole number"),
        ("seeds", "1", "a list, each item a whole number"),
        ("folder", "3", "a path or nothing"),
        ("name", "7", "a text"),
    ],
)
def test_value_of_another_kind_is_refused_in_the_file(
    tmp_path: Path, name: str, text: str, words: str
) -> None:
    error = refusal(tmp_path, f"[node]\n{name} = {text}\n")
    assert error.key == f"node.{name}"
    assert words in error.detail


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("IS_OPEN", "yes"),
        ("RATE", "fast"),
        ("LEVEL", "middle"),
        ("COLOR", ""),
        ("SEEDS", "1,x"),
        ("INNER__DELAY_MS_MAX", "1.5"),
    ],
)
def test_value_of_another_kind_is_refused_in_the_environment(
    tmp_path: Path, name: str, text: str
) -> None:
    error = refusal(tmp_path, **{f"SKERRY_NODE__{name}": text})
    assert error.origin == f"environment SKERRY_NODE__{name}"


def test_unknown_key_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    error = refusal(tmp_path, "[node.inner]\ndelay_ms = 3\n")
    assert error.key == "node.inner.delay_ms"
    assert error.hint == "did you mean node.inner.delay_ms_max?"
    assert refusal(tmp_path, SKERRY_NODE__NAM="x").hint == "did you mean node.name?"


def test_unknown_key_unlike_any_other_is_refused_with_all_names(tmp_path: Path) -> None:
    hint = refusal(tmp_path, "[node]\nzzzzzzzz = 3\n").hint
    assert hint is not None
    assert "node.inner.group" in hint


def test_unknown_section_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    assert refusal(tmp_path, "[nodes]\nname = 'x'\n").hint == "did you mean node?"
    assert refusal(tmp_path, "[nodes]\n").key == "nodes"


def test_value_outside_of_sections_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, "name = 'x'\n").key == "name"


def test_section_in_the_place_of_a_value_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, "[node.name]\nx = 1\n").key == "node.name.x"
    assert refusal(tmp_path, "[node.name]\n").key == "node.name"


def test_value_in_the_place_of_a_section_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, "[node]\ninner = 3\n").key == "node.inner"


def test_empty_section_is_fine(tmp_path: Path) -> None:
    assert node(tmp_path, "[node]\n[node.inner]\n[other]\n").value == NodeConfig()


def test_what_a_section_forbids_is_told_with_its_origin(tmp_path: Path) -> None:
    error = refusal(tmp_path, SKERRY_NODE__INNER__DELAY_MS_MAX="0")
    assert error.key == "node.inner"
    assert error.origin == "environment SKERRY_NODE__INNER__DELAY_MS_MAX"
    assert "more than 0" in str(error)


def test_other_variables_of_skerry_are_not_configuration(tmp_path: Path) -> None:
    environ = {"SKERRY_PURE": "1", "SKERRY_ENDPOINT": "x", "OTHER__NODE": "x"}
    assert node(tmp_path, "", environ).value == NodeConfig()


@pytest.mark.parametrize("content", [b"[node", b"\xff\xfe", b"x = " + b"[" * 5000])
def test_file_that_is_not_toml_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "bad.toml"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match="not TOML"):
        read_sources(sections=("node",), file=file, environ={})


def test_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_sources(sections=("node",), file=tmp_path / "none.toml", environ={})
    with pytest.raises(ConfigError, match="directory"):
        read_sources(sections=("node",), file=tmp_path, environ={})


@pytest.mark.parametrize(("extra", "is_refused"), [(0, False), (1, True)])
def test_file_may_be_as_long_as_the_limit_and_no_longer(
    tmp_path: Path, extra: int, is_refused: bool
) -> None:
    file = tmp_path / "long.toml"
    file.write_bytes(b"#" * (limits.CONFIG_BYTES_MAX + extra))
    if is_refused:
        with pytest.raises(ConfigError, match=f"longer than {limits.CONFIG_BYTES_MAX} bytes"):
            read_sources(sections=(), file=file, environ={})
    else:
        assert read_sources(sections=(), file=file, environ={}) == Sources(values={})


def test_file_is_the_named_one_then_the_variable_then_here_then_the_users(tmp_path: Path) -> None:
    here, home, own = tmp_path / "here", tmp_path / "home", tmp_path / "own"
    for folder in (here, home / ".config" / "skerry", own / "skerry"):
        folder.mkdir(parents=True)
    places: dict[str, Any] = {"folder": here, "home": home}
    assert config_file(None, environ={}, **places) is None
    users = home / ".config" / "skerry" / "skerry.toml"
    users.touch()
    assert config_file(None, environ={}, **places) == users
    moved = {"XDG_CONFIG_HOME": str(own)}
    assert config_file(None, environ=moved, **places) is None
    (own / "skerry" / "skerry.toml").touch()
    assert config_file(None, environ=moved, **places) == own / "skerry" / "skerry.toml"
    (here / "skerry.toml").touch()
    assert config_file(None, environ=moved, **places) == here / "skerry.toml"
    named = {**moved, "SKERRY_CONFIG": "variable.toml"}
    assert config_file(None, environ=named, **places) == Path("variable.toml")
    assert config_file(Path("flag.toml"), environ=named, **places) == Path("flag.toml")
