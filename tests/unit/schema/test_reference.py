"""The reference page of the type language agrees with the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from skerry.schema.changes import What, change
from skerry.schema.model import SCALAR_KINDS, Scope
from skerry.schema.rules.options import FIELD_OPTIONS, STRUCT_OPTIONS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/reference/types.md").read_text()
MESSAGE = re.compile(r"^\* ``(.+)``$", re.MULTILINE)
STAND_IN = re.compile(r"\b(?:MARK|NAME|N|PLACE|TEXT|WHAT|WHY)\b")

REACHED_IN_UNIT_TESTS = {
    "half of a surrogate pair is not a character",
    "the text has N bytes, the limit is N",
    "the documentation of NAME has N bytes, the limit is N",
    "enum NAME has N elements, the limit is N",
    "there is no such file",
}
"""Messages that no file of the golden ones provokes, or only one that is too large to keep."""


def pattern(message: str) -> re.Pattern[str]:
    return re.compile(".+".join(re.escape(piece) for piece in STAND_IN.split(message)))


def golden_messages() -> set[str]:
    found = set()
    for folder in ("bad", "questionable"):
        for path in (ROOT / "tests/golden/types" / folder).glob("*.txt"):
            found |= set(re.findall(r"^\d+:\d+: \w+: (.+)$", path.read_text(), re.MULTILINE))
    return found


def test_every_message_of_the_golden_files_is_on_the_page() -> None:
    patterns = [pattern(message) for message in MESSAGE.findall(PAGE)]
    unknown = [m for m in golden_messages() if not any(p.fullmatch(m) for p in patterns)]
    assert unknown == []


def test_every_message_on_the_page_is_provoked() -> None:
    golden = golden_messages()
    stale = {
        message
        for message in MESSAGE.findall(PAGE)
        if not any(pattern(message).fullmatch(one) for one in golden)
    }
    assert stale == REACHED_IN_UNIT_TESTS


@pytest.mark.parametrize("what", list(What))
def test_every_kind_of_change_is_on_the_page(what: What) -> None:
    assert what.value in PAGE
    try:
        rule = change(what, "", "")
    except KeyError:
        return  # decided by the types, in a table of its own
    effects = [rule.old_reader, rule.new_reader, rule.stored]
    cells = [what.value, *(effect.name.lower() for effect in effects), rule.why]
    assert f"| {' | '.join(cells)} |" in PAGE


@pytest.mark.parametrize("name", [*SCALAR_KINDS, "time_point", "float128", "instance_ref"])
def test_every_built_in_type_is_on_the_page(name: str) -> None:
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize("name", sorted({*STRUCT_OPTIONS, *FIELD_OPTIONS}))
def test_every_option_is_on_the_page(name: str) -> None:
    assert re.search(rf'^\| `{name}(="\.\.\.")?` \|', PAGE, re.MULTILINE)


@pytest.mark.parametrize("scope", list(Scope))
def test_every_scope_is_on_the_page(scope: Scope) -> None:
    assert f"`{scope.name.lower()}`" in PAGE
