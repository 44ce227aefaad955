"""Configuration: frozen dataclasses filled from a file, the environment and flags.

Each component has a configuration dataclass. Its fields are the keys, its defaults the defaults,
and its `__post_init__` checks the values (it raises ValueError). `load` fills one such section.
Each value comes from the first of: a flag, the environment (`SKERRY_SECTION__KEY`), the TOML file,
the default. Its origin is recorded. A field that is a tuple of dataclasses is a list of tables in
the file (`[[section.key]]`), and cannot come from the environment. The value of a field with
`metadata={"is_secret": True}` is not shown.

There is no global state, and nothing is read on import: callers pass the environment and the file
to read.
"""

from __future__ import annotations

import dataclasses
import enum
import os
import re
import tomllib
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from skerry import limits
from skerry.errors import ConfigError
from skerry.suggestions import nearest

CONFIG_TABLE_COUNT_MAX: Final = 10_000
"""Tables in one list of a configuration: more than a useful file of the largest size has."""

ENVIRONMENT_PREFIX: Final = "SKERRY_"
DEFAULT_ORIGIN: Final = "default"
HIDDEN: Final = "********"
"""Replaces secrets of any length when they are shown."""

_PASSWORD_OPTION: Final = re.compile(
    r"((?:^|[?&\s])[\w-]*(?:password|secret)\s*=\s*)[^&\s]+", re.IGNORECASE
)

_PORT: Final = re.compile(r"\d*(?:[/?]|$)")

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A raw value and its origin; text from the environment is not parsed yet."""

    raw: object = dataclasses.field(repr=False)  # it may be a secret
    origin: str
    is_text: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The given values by key (`node.distributor.group`), each from its strongest source."""

    values: Mapping[str, Value]

    def with_flags(self, flags: Mapping[str, tuple[str, object]]) -> Sources:
        """These values overridden by flags: name and value by key, None if a flag is not given."""
        given = {
            key: Value(raw=raw, origin=f"flag {flag}")
            for key, (flag, raw) in flags.items()
            if raw is not None
        }
        return Sources(values={**self.values, **given})


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded(Generic[T]):
    """A filled section, and the origin of the value of each key."""

    value: T
    origins: Mapping[str, str]


def config_file(
    named: Path | None, *, environ: Mapping[str, str], folder: Path, home: Path
) -> Path | None:
    """The file to read: the named one, SKERRY_CONFIG, `skerry.toml` in `folder`, or the user's."""
    if named is not None:
        return named
    if environ.get("SKERRY_CONFIG"):
        return Path(environ["SKERRY_CONFIG"])
    own = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    candidates = (folder / "skerry.toml", own / "skerry" / "skerry.toml")
    return next((path for path in candidates if path.is_file()), None)


def read_sources(
    *,
    sections: Sequence[str],
    file: Path | None,
    environ: Mapping[str, str],
    check: Callable[[Path, os.stat_result], None] | None = None,
) -> Sources:
    """Merge file and environment; ConfigError for a section that is not in `sections`.

    `check` is called with the stat result of the open file, and raises ConfigError to reject it.
    """
    values = dict(_file_values(file, check)) if file is not None else {}
    values.update(_environment_values(environ))
    for key, value in values.items():
        section = key.partition(".")[0]
        if section not in sections:
            raise _unknown(key, value.origin, "section", section, sections)
    return Sources(values=values)


def load(section: str, cls: type[T], sources: Sources) -> Loaded[T]:
    """Fill the dataclass `cls` with the values of `section`; ConfigError for invalid values."""
    prefix = f"{section}."
    mine = {key: value for key, value in sources.values.items() if f"{key}.".startswith(prefix)}
    _check_names(section, cls, mine)
    origins: dict[str, str] = {}
    return Loaded(value=_build(section, cls, mine, origins), origins=origins)


def field_keys(section: str, cls: type[Any]) -> Iterator[tuple[str, dataclasses.Field[Any]]]:
    """Every key of a section with its field, including those of nested sections and tables."""
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        hint = hints[field.name]
        inner = _dataclass(hint) or _table_class(hint)
        if inner is not None:
            yield from field_keys(f"{section}.{field.name}", inner)
        else:
            yield f"{section}.{field.name}", field


def settings_of(section: str, loaded: Loaded[Any]) -> Iterator[tuple[str, object, str]]:
    """Every key with its value and origin, for display: tables by index, secrets hidden."""
    for key, value, is_secret in _leaves(section, loaded.value):
        shown = HIDDEN if is_secret and value is not None else without_passwords(value)
        yield key, shown, loaded.origins.get(key, DEFAULT_ORIGIN)


def without_passwords(value: object) -> object:
    """A value for display, without passwords in URLs."""
    if isinstance(value, tuple):
        return tuple(map(without_passwords, value))
    if not isinstance(value, str):
        return value
    text = _PASSWORD_OPTION.sub(rf"\1{HIDDEN}", value)
    scheme, slashes, rest = text.partition("://")
    user, colon, after_colon = rest.partition(":")
    _, at, host = after_colon.rpartition("@")
    has_password = bool(slashes and colon and at) and not set(user) & set("/@[")
    if not has_password or _PORT.match(after_colon):
        return text
    return f"{scheme}://{user}:{HIDDEN}@{host}"


def _leaves(section: str, instance: Any) -> Iterator[tuple[str, object, bool]]:
    hints = typing.get_type_hints(type(instance))
    for field in dataclasses.fields(instance):
        key, value = f"{section}.{field.name}", getattr(instance, field.name)
        if _dataclass(hints[field.name]) is not None:
            yield from _leaves(key, value)
        elif _table_class(hints[field.name]) is not None and value:
            for index, table in enumerate(value):
                yield from _leaves(f"{key}[{index}]", table)
        else:
            yield key, value, _is_secret(field)


# -- sources of values


def _file_values(
    file: Path, check: Callable[[Path, os.stat_result], None] | None
) -> Iterator[tuple[str, Value]]:
    origin = f"file {file}"
    try:
        with file.open("rb") as stream:
            if check is not None:
                check(file, os.fstat(stream.fileno()))
            data = stream.read(limits.CONFIG_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(
            key="configuration", origin=origin, detail=error.strerror or str(error)
        ) from error
    if len(data) > limits.CONFIG_BYTES_MAX:
        raise ConfigError(
            key="configuration",
            origin=origin,
            detail=f"the file is larger than {limits.CONFIG_BYTES_MAX} bytes",
        )
    try:
        table = tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(
            key="configuration", origin=origin, detail=f"not TOML: {error}"
        ) from error
    for name, content in table.items():
        if not isinstance(content, dict):
            raise ConfigError(
                key=name,
                origin=origin,
                detail="it is not in a section",
                hint="write a section before it, such as [cli]",
            )
        yield from _table_values(name, content, origin)


def _table_values(key: str, table: dict[str, Any], origin: str) -> Iterator[tuple[str, Value]]:
    if not table:
        yield key, Value(raw=table, origin=origin)
    for name, content in table.items():
        if isinstance(content, dict):
            yield from _table_values(f"{key}.{name}", content, origin)
        else:
            yield f"{key}.{name}", Value(raw=content, origin=origin)


def _environment_values(environ: Mapping[str, str]) -> Iterator[tuple[str, Value]]:
    for name, text in environ.items():
        # Variables with single underscores are not configuration: SKERRY_PURE, SKERRY_ENDPOINT.
        if name.startswith(ENVIRONMENT_PREFIX) and "__" in name:
            key = name.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", ".")
            yield key, Value(raw=text, origin=f"environment {name}", is_text=True)


# -- from values to a dataclass


def _check_names(section: str, cls: type[Any], values: Mapping[str, Value]) -> None:
    given = dict(_given_keys(section, cls))
    lists = [key for key, is_list in given.items() if is_list]
    known = [key for key, is_list in given.items() if not is_list]
    groups = {key.rpartition(".")[0] for key in known} | {section}
    for key, value in values.items():
        is_empty_group = value.raw == {} and key in groups
        if key in known or is_empty_group:
            continue
        list_key = next((name for name in lists if f"{key}.".startswith(f"{name}.")), None)
        if list_key is None:
            raise _unknown(key, value.origin, "key", key, list(given), section=section)
        if value.is_text or key != list_key or value.raw == {}:
            raise ConfigError(
                key=list_key,
                origin=value.origin,
                detail="it is a list of tables, which can only be given in the file",
                hint=f"write [[{list_key}]], with two brackets, before each table",
            )


def _given_keys(section: str, cls: type[Any]) -> Iterator[tuple[str, bool]]:
    """The keys of a section, and whether each is a list of tables, which is one value."""
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        key, hint = f"{section}.{field.name}", hints[field.name]
        inner = _dataclass(hint)
        if inner is not None:
            yield from _given_keys(key, inner)
        else:
            yield key, _table_class(hint) is not None


def _dataclass(hint: Any) -> type[Any] | None:
    """The dataclass of a nested section; None for any other field."""
    return hint if isinstance(hint, type) and dataclasses.is_dataclass(hint) else None


def _table_class(hint: Any) -> type[Any] | None:
    """The dataclass of a list of tables; None for any other field."""
    return _dataclass(typing.get_args(hint)[0]) if typing.get_origin(hint) is tuple else None


def _is_secret(field: dataclasses.Field[Any]) -> bool:
    return bool(field.metadata.get("is_secret"))


def _unknown(
    key: str, origin: str, what: str, name: str, known: Sequence[str], *, section: str = ""
) -> ConfigError:
    # Without the section, which is correct: it would make all keys look similar.
    start = len(section) + 1 if section else 0
    guess = nearest(name[start:], [candidate[start:] for candidate in known])
    if guess:
        hint = f"did you mean {known[0][:start]}{guess}?"
    else:
        hint = f"known are: {', '.join(sorted(known))}"
    return ConfigError(key=key, origin=origin, detail=f"unknown {what}", hint=hint)


def _build(section: str, cls: type[T], values: Mapping[str, Value], origins: dict[str, str]) -> T:
    assert dataclasses.is_dataclass(cls)
    hints = typing.get_type_hints(cls)
    arguments: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        key, hint = f"{section}.{field.name}", hints[field.name]
        inner = _dataclass(hint)
        if inner is not None:
            arguments[field.name] = _build(key, inner, values, origins)
            continue
        value = values.get(key)
        table_class = _table_class(hint)
        if table_class is not None and value is not None and value.raw:
            arguments[field.name] = tuple(_build_tables(key, table_class, value, origins))
            continue
        origins[key] = value.origin if value else DEFAULT_ORIGIN
        if value is not None:
            arguments[field.name] = _converted(key, value, hint, is_secret=_is_secret(field))
        elif _is_required(field):
            origin = _origin_of(values) or DEFAULT_ORIGIN
            raise ConfigError(key=key, origin=origin, detail="it is missing and has no default")
    try:
        return cls(**arguments)
    except (TypeError, ValueError, ConfigError) as error:
        if isinstance(error, ConfigError) and error.origin:
            raise
        keys = [f"{section}.{name}" for name in arguments]
        if isinstance(error, ConfigError) and error.key in keys:
            keys = [error.key]
        given = {origins[key] for key in keys if key in origins}
        origin = ", ".join(sorted(given)) or _origin_of(values) or DEFAULT_ORIGIN
        if isinstance(error, ConfigError):
            raise ConfigError(
                key=error.key, origin=origin, detail=error.detail, hint=error.hint
            ) from error
        raise ConfigError(key=section, origin=origin, detail=str(error)) from error


def _build_tables(
    key: str, cls: type[Any], value: Value, origins: dict[str, str]
) -> Iterator[object]:
    if not isinstance(value.raw, list | tuple):
        raise ConfigError(
            key=key,
            origin=value.origin,
            detail="it is not a list of tables",
            hint=f"write [[{key}]] before each table",
        )
    if len(value.raw) > CONFIG_TABLE_COUNT_MAX:
        detail = f"{len(value.raw)} tables, the limit is {CONFIG_TABLE_COUNT_MAX}"
        raise ConfigError(key=key, origin=value.origin, detail=detail)
    for index, table in enumerate(value.raw):
        table_key = f"{key}[{index}]"
        if not isinstance(table, dict):
            raise ConfigError(key=table_key, origin=value.origin, detail="it is not a table")
        given = dict(_table_values(table_key, table, value.origin))
        _check_names(table_key, cls, given)
        yield _build(table_key, cls, given, origins)


def _is_required(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def _origin_of(values: Mapping[str, Value]) -> str:
    return ", ".join(sorted({value.origin for value in values.values()}))


def _converted(key: str, value: Value, hint: Any, *, is_secret: bool) -> object:
    try:
        return _from_text(str(value.raw), hint) if value.is_text else _checked(value.raw, hint)
    except ValueError as error:
        # The message and its cause contain the value.
        if is_secret:
            detail = f"the value is not {_described(hint)}"
            raise ConfigError(key=key, origin=value.origin, detail=detail) from None
        raise ConfigError(key=key, origin=value.origin, detail=str(error)) from error


def _checked(raw: object, hint: Any) -> object:
    """A value from TOML or a flag, converted to the annotated type."""
    for choice in _choices(hint):
        accepted, result = _accept(raw, choice)
        if accepted:
            return result
    raise ValueError(f"{raw!r} is not {_described(hint)}")


def _accept(raw: object, hint: Any) -> tuple[bool, object]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        if not isinstance(raw, list | tuple):
            return False, None
        return True, tuple(_checked(item, arguments[0]) for item in raw)
    if origin is typing.Literal:
        return raw in arguments, raw
    if hint is type(None):
        return raw is None, None
    if issubclass(hint, enum.Enum):
        # Compared one by one: a list, which TOML may contain, is not hashable.
        for member in hint:
            if raw is member or raw == member.value:
                return True, member
        return False, None
    if hint is Path:
        return isinstance(raw, str | Path), Path(str(raw))
    if hint is float:
        is_number = isinstance(raw, int | float) and not isinstance(raw, bool)
        return is_number, float(typing.cast("float", raw)) if is_number else None
    # `True` is an int in Python, but hardly ever meant as one.
    return isinstance(raw, hint) and (hint is bool or not isinstance(raw, bool)), raw


def _from_text(text: str, hint: Any) -> object:
    """A text from the environment, converted to the annotated type."""
    for choice in _choices(hint):
        try:
            return _checked(_parsed(text, choice), choice)
        except ValueError:
            continue
    raise ValueError(f"{text!r} is not {_described(hint)}")


def _parsed(text: str, hint: Any) -> object:
    if typing.get_origin(hint) is tuple:
        item = typing.get_args(hint)[0]
        return [_from_text(part.strip(), item) for part in text.split(",") if part.strip()]
    if hint is type(None):
        return None if text == "" else text
    if hint is bool:
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
    if hint in (int, float):
        return hint(text)
    return text


def _choices(hint: Any) -> tuple[Any, ...]:
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return typing.get_args(hint) if is_union else (hint,)


def _described(hint: Any) -> str:
    """The annotated type in words, for error messages."""
    names = {
        bool: "true or false",
        int: "a whole number",
        float: "a number",
        str: "a text",
        Path: "a path",
        type(None): "nothing",
    }
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_described(choice) for choice in arguments)
    if _table_class(hint) is not None:
        return "a list of tables"
    if origin is tuple:
        return f"a list, each item {_described(arguments[0])}"
    if origin is typing.Literal:
        return f"one of {', '.join(map(repr, arguments))}"
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return f"one of {', '.join(repr(member.value) for member in hint)}"
    return names[hint]
