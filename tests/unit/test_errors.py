"""Errors: one tree, facts as attributes, and messages that say what to do."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import pytest

from skerry import errors
from skerry.errors import (
    ConfigError,
    DecodeError,
    EncodeError,
    LimitExceeded,
    Problem,
    RemoteProtocolError,
    SchemaCheckError,
    SchemaError,
    SchemaMismatchError,
    SchemaSyntaxError,
    Severity,
    SimulationError,
    SkerryError,
)

EXAMPLES: list[SkerryError] = [
    SchemaSyntaxError(
        [Problem(message="no brace", file="a.dots", line=3, column=7, hint="add it")]
    ),
    SchemaCheckError("a tag is used twice"),
    SchemaMismatchError(name="Vessel", known="1f", offered="2e", difference="tag 3"),
    EncodeError(type_name="Vessel", field="mmsi", detail="-1 is negative"),
    DecodeError(type_name="Vessel", field="lat", detail="not a float", offset=12),
    RemoteProtocolError(peer="10.0.0.7", message="Accept", detail="view 3 below current 4"),
    LimitExceeded(what="frame bytes", value=11, limit=10),
    ConfigError(key="cli.color", origin="file x", detail="no", hint="yes"),
    SimulationError(scenario="pair", seed=7, checker="order", detail="3 before 2"),
]


def all_errors() -> list[type[SkerryError]]:
    found = (value for value in vars(errors).values() if inspect.isclass(value))
    return [value for value in found if issubclass(value, SkerryError)]


def test_every_error_is_exported() -> None:
    assert {error.__name__ for error in all_errors()} <= set(errors.__all__)


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    drawn = [line for line in (errors.__doc__ or "").splitlines() if line.startswith("    ")]
    parents: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in drawn:
        depth = len(line) - len(line.lstrip())
        names = [word for word in line.split() if hasattr(errors, word)]
        above = [entry for entry in above if entry[0] < depth]
        parents.update({name: above[-1][1] for name in names if above})
        above.append((depth, names[0]))
    real = {
        cls.__name__: cls.__bases__[0].__name__ for cls in all_errors() if cls is not SkerryError
    }
    assert parents == real


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_error_survives_pickling_with_its_facts(error: SkerryError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.__dict__ == error.__dict__
    assert copy.hint == error.hint


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_message_is_not_empty(error: SkerryError) -> None:
    assert str(error).strip()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (EXAMPLES[0], "a.dots:3:7: error: no brace"),
        (EXAMPLES[1], "a tag is used twice"),
        (EXAMPLES[3], "Vessel.mmsi: -1 is negative"),
        (EXAMPLES[4], "Vessel.lat: not a float at byte 12"),
        (EXAMPLES[5], "10.0.0.7 broke the protocol in Accept: view 3 below current 4"),
        (EXAMPLES[6], "frame bytes is 11, the limit is 10"),
        (EXAMPLES[7], "cli.color (file x): no"),
        (EXAMPLES[8], "pair with seed 7: order: 3 before 2"),
        (EncodeError(type_name="Vessel", field="", detail="no object"), "Vessel: no object"),
        (DecodeError(type_name="Vessel", detail="cut short"), "Vessel: cut short"),
    ],
)
def test_message_is_built_from_the_facts(error: SkerryError, message: str) -> None:
    assert str(error) == message


def test_schema_error_has_one_line_per_problem_and_the_first_hint() -> None:
    problems = [
        Problem(message="one", file="a", line=1),
        Problem(message="two", file="a", line=2, severity=Severity.WARNING, hint="look"),
    ]
    error = SchemaError(problems)
    assert str(error).splitlines() == ["a:1:1: error: one", "a:2:1: warning: two"]
    assert error.problems == tuple(problems)
    assert error.hint == "look"


def test_simulation_error_has_the_command_that_repeats_it() -> None:
    error: Any = SimulationError(scenario="pair", seed=7, checker="order", detail="x")
    assert "skerry sim run --scenario pair --seed 7" in error.hint


def test_an_error_without_advice_has_no_hint() -> None:
    assert LimitExceeded(what="x", value=2, limit=1).hint is None
