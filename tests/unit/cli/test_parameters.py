"""Values of options."""

from __future__ import annotations

import click
import pytest

from skerry.cli import parameters
from skerry.cli.parameters import CheckedText, FiniteFloat, WrongValue, as_wrong_value, field_names
from skerry.errors import ConfigError, DecodeError, SkerryError


@pytest.mark.parametrize("text", ["0", "1.5", "1e308"])
def test_numbers_in_range_are_accepted(text: str) -> None:
    assert FiniteFloat(min=0).convert(text, None, None) == float(text)


@pytest.mark.parametrize("text", ["nan", "-nan", "inf", "Infinity", "1e309", "-0.1", "one"])
def test_invalid_or_out_of_range_numbers_are_rejected(text: str) -> None:
    with pytest.raises(click.BadParameter):
        FiniteFloat(min=0).convert(text, None, None)


def test_without_a_range_infinity_is_still_refused() -> None:
    with pytest.raises(click.BadParameter, match="'-inf' is not a finite number"):
        FiniteFloat().convert("-inf", None, None)


@pytest.mark.parametrize(
    ("check", "right", "wrong"),
    [
        ("check_condition", "a > 1 and b = 'x'", "a >"),
        ("check_endpoint", "uds:/run/skerry-*.sock", "uds:skerry.sock"),
        ("check_endpoint", "tcp://127.0.0.1:4000", "tcp://127.0.0.1:400000"),
        ("check_group", "239.192.7.1:4711", "10.0.0.1:4711"),
        ("check_metrics", "127.0.0.1:0", "127.0.0.1"),
        ("check_metrics", "off", "on"),
        ("check_storage", "none", ""),
        ("check_storage", "sqlite:x.db", "sqlite:"),
        ("check_storage", "postgresql://user@host/a", "postgresql:a"),
    ],
)
def test_texts_are_accepted_unchanged_or_rejected(check: str, right: str, wrong: str) -> None:
    kind = CheckedText(getattr(parameters, check))
    assert kind.convert(right, None, None) == right
    option = click.Option(["-x", "--example"])
    with pytest.raises(WrongValue) as refused:
        kind.convert(wrong, option, None)
    assert refused.value.format_message().startswith("Invalid value for '--example': ")


def test_a_wrong_argument_is_called_as_in_the_usage() -> None:
    with pytest.raises(WrongValue) as refused:
        CheckedText(parameters.check_group).convert(
            "x", click.Argument(["group"], metavar="GROUP"), None
        )
    assert refused.value.format_message().startswith("Invalid value for 'GROUP': ")
    assert refused.value.hint == "write a group as 239.192.7.1:4711 or [ff15::7:1]:4711"


def test_a_password_of_a_storage_is_not_shown() -> None:
    with pytest.raises(SkerryError, match="'postgre'") as refused:
        parameters.check_storage("postgre://user:secret@host/a")
    assert "secret" not in str(refused.value)


def test_errors_of_another_kind_are_not_converted() -> None:
    with pytest.raises(ConfigError), as_wrong_value("--key", DecodeError):
        raise ConfigError(key="a", origin="b", detail="c")


def test_names_of_fields_are_separated_by_commas() -> None:
    assert field_names("a, b,c") == ["a", "b", "c"]
    assert field_names(None) is None
    for text in ("", ",", "a,,b"):
        with pytest.raises(WrongValue, match="a field name is empty"):
            field_names(text)
