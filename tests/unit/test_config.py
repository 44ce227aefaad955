"""Configuration: who decides about a value, what is remembered, and what is refused."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from skerry import limits
from skerry.config import (
    CONFIG_TABLE_COUNT_MAX,
    HIDDEN,
    Loaded,
    Sources,
    config_file,
    field_keys,
    load,
    read_sources,
    settings_of,
    without_passwords,
)
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
        with pytest.raises(ConfigError, match=f"larger than {limits.CONFIG_BYTES_MAX} bytes"):
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


# -- lists of tables


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleConfig:
    verbs: tuple[Literal["publish", "clear"], ...]
    client: str = "*"
    secret: str | None = field(default=None, repr=False, metadata={"is_secret": True})
    inner: InnerConfig = field(default_factory=InnerConfig)

    def __post_init__(self) -> None:
        if not self.verbs:
            raise ValueError("verbs is empty")


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorConfig:
    name: str = "door"
    password: str | None = field(default=None, repr=False, metadata={"is_secret": True})
    rule: tuple[RuleConfig, ...] = ()
    more: tuple[InnerConfig, ...] = (InnerConfig(),)


def door(tmp_path: Path, text: str = "", **environ: str) -> Loaded[DoorConfig]:
    file = tmp_path / "skerry.toml"
    file.write_text(text, encoding="utf-8")
    return load(
        "door", DoorConfig, read_sources(sections=("door",), file=file, environ=dict(environ))
    )


def door_refusal(tmp_path: Path, text: str = "", **environ: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        door(tmp_path, text, **environ)
    return caught.value


TWO_RULES = """
[[door.rule]]
verbs = ["publish"]
secret = "sesame"
[[door.rule]]
verbs = ["publish", "clear"]
client = "a*"
inner.group = "x"
"""


def test_tables_of_a_list_are_filled_in_order(tmp_path: Path) -> None:
    loaded = door(tmp_path, TWO_RULES)
    assert loaded.value.rule == (
        RuleConfig(verbs=("publish",), secret="sesame"),
        RuleConfig(verbs=("publish", "clear"), client="a*", inner=InnerConfig(group="x")),
    )
    assert loaded.origins["door.rule[1].client"] == f"file {tmp_path / 'skerry.toml'}"
    assert loaded.origins["door.rule[0].client"] == "default"
    assert loaded.origins["door.rule[1].inner.delay_ms_max"] == "default"


def test_a_list_of_tables_may_stand_in_one_line_or_be_empty(tmp_path: Path) -> None:
    line = '[door]\nrule = [{verbs = ["clear"]}]\n'
    assert door(tmp_path, line).value.rule == (RuleConfig(verbs=("clear",)),)
    assert door(tmp_path, "[door]\nrule = []\nmore = []\n").value == DoorConfig(more=())
    assert door(tmp_path).value.rule == ()


@pytest.mark.parametrize(
    ("line", "key", "words", "hint"),
    [
        ('verbs = ["read"]', "door.rule[1].verbs", "one of 'publish', 'clear'", None),
        ("verbs = 3", "door.rule[1].verbs", "a list, each item", None),
        ("verbs = []", "door.rule[1]", "verbs is empty", None),
        ('client = "x"', "door.rule[1].verbs", "is missing", None),
        ("", "door.rule[1].verbs", "is missing", None),
        ('verb = ["clear"]', "door.rule[1].verb", "unknown key", "mean door.rule[1].verbs?"),
        ("inner.x = 1", "door.rule[1].inner.x", "unknown key", "known are: door.rule[1].client"),
        ('verbs = ["clear"]\ninner.delay_ms_max = 0', "door.rule[1].inner", "more than 0", None),
    ],
)
def test_faults_in_a_table_are_told_with_its_index(
    tmp_path: Path, line: str, key: str, words: str, hint: str | None
) -> None:
    good = '[[door.rule]]\nverbs = ["clear"]\n'
    error = door_refusal(tmp_path, f"{good}[[door.rule]]\n{line}\n{good}")
    assert error.key == key
    assert words in error.detail
    assert error.origin == f"file {tmp_path / 'skerry.toml'}"
    assert (hint or "") in (error.hint or "")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[door]\nrule = 3\n", "door.rule"),
        ('[door]\nrule = ""\n', "door.rule"),
        ("[door]\nrule = [3]\n", "door.rule[0]"),
        ('[door]\nrule = ["x"]\n', "door.rule[0]"),
        ('[door.rule]\nverbs = ["clear"]\n', "door.rule"),
        ("[door.rule]\n", "door.rule"),
        ("[door.rule.inner]\ngroup = 'x'\n", "door.rule"),
    ],
)
def test_what_is_no_list_of_tables_is_refused(tmp_path: Path, text: str, key: str) -> None:
    error = door_refusal(tmp_path, text)
    assert error.key == key
    assert "table" in error.detail


@pytest.mark.parametrize("name", ["SKERRY_DOOR__RULE", "SKERRY_DOOR__RULE__VERBS"])
def test_the_environment_cannot_set_a_list_of_tables(tmp_path: Path, name: str) -> None:
    error = door_refusal(tmp_path, TWO_RULES, **{name: "publish"})
    assert (error.key, error.origin) == ("door.rule", f"environment {name}")
    assert "only be given in the file" in error.detail
    assert error.hint == "write [[door.rule]], with two brackets, before each table"


def test_a_misspelt_list_gets_the_nearest_name(tmp_path: Path) -> None:
    assert door_refusal(tmp_path, "[[door.rules]]\n").hint == "did you mean door.rule?"


@pytest.mark.slow
def test_a_list_may_have_so_many_tables_and_no_more(tmp_path: Path) -> None:
    def text(count: int) -> str:
        return "[door]\nmore = [" + "{}," * count + "]\n"

    limit = CONFIG_TABLE_COUNT_MAX
    assert len(door(tmp_path, text(limit)).value.more) == limit
    error = door_refusal(tmp_path, text(limit + 1))
    assert (error.key, error.detail) == ("door.more", f"{limit + 1} tables, the limit is {limit}")


def test_keys_of_tables_are_among_the_keys_of_a_section() -> None:
    keys = [key for key, _ in field_keys("door", DoorConfig)]
    assert keys[:5] == [
        "door.name",
        "door.password",
        "door.rule.verbs",
        "door.rule.client",
        "door.rule.secret",
    ]


def test_settings_are_shown_with_tables_by_index_and_secrets_hidden(tmp_path: Path) -> None:
    loaded = door(tmp_path, TWO_RULES, SKERRY_DOOR__PASSWORD="hush")
    shown = {key: (value, origin) for key, value, origin in settings_of("door", loaded)}
    file = f"file {tmp_path / 'skerry.toml'}"
    assert shown["door.name"] == ("door", "default")
    assert shown["door.password"] == (HIDDEN, "environment SKERRY_DOOR__PASSWORD")
    assert shown["door.rule[0].secret"] == (HIDDEN, file)
    assert shown["door.rule[1].secret"] == (None, "default")
    assert shown["door.rule[1].inner.group"] == ("x", file)
    assert shown["door.more[0].group"] == ("none", "default")
    assert dict(settings_rows(door(tmp_path)))["door.rule"] == ()


def settings_rows(loaded: Loaded[DoorConfig]) -> list[tuple[str, object]]:
    return [(key, value) for key, value, _ in settings_of("door", loaded)]


def test_a_secret_is_in_no_text_about_a_configuration(tmp_path: Path) -> None:
    file = tmp_path / "skerry.toml"
    file.write_text(TWO_RULES, encoding="utf-8")
    environ = {"SKERRY_DOOR__PASSWORD": "hush"}
    sources = read_sources(sections=("door",), file=file, environ=environ)
    texts = repr(sources) + repr(load("door", DoorConfig, sources))
    assert "sesame" not in texts
    assert "hush" not in texts


def test_a_secret_that_is_no_text_is_refused_without_being_told(tmp_path: Path) -> None:
    error = door_refusal(tmp_path, '[[door.rule]]\nverbs = ["clear"]\nsecret = 271828\n')
    assert error.key == "door.rule[0].secret"
    assert error.detail == "the value is not a text or nothing"
    assert "271828" not in str(error)
    assert error.__cause__ is None


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("postgresql://ann:s3@db:5432/x", "postgresql://ann:********@db:5432/x"),
        ("postgresql://ann:s@3/s@db/x", "postgresql://ann:********@db/x"),
        ("postgresql://:s3@db/x", "postgresql://:********@db/x"),
        ("postgresql://ann@db:5432/x", "postgresql://ann@db:5432/x"),
        ("postgresql://db:5432/x?user=a@b", "postgresql://db:5432/x?user=a@b"),
        ("postgresql://db/x?password=s3&user=a", "postgresql://db/x?password=********&user=a"),
        (
            "postgresql://db/x?user=a&sslpassword=s3",
            "postgresql://db/x?user=a&sslpassword=********",
        ),
        ("tcp://[::1]:11235", "tcp://[::1]:11235"),
        ("host=db password = s3 user=a", "host=db password = ******** user=a"),
        ("no password at all", "no password at all"),
        (("tcp://ann:s3@host", "uds:/x"), ("tcp://ann:********@host", "uds:/x")),
        (7, 7),
    ],
)
def test_passwords_in_urls_are_not_shown(value: object, shown: object) -> None:
    assert without_passwords(value) == shown
