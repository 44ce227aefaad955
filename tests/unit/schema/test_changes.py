"""The table of changes, and verdicts."""

from __future__ import annotations

import pytest

from skerry.schema.changes import Change, Verdict, What, change, verdict
from skerry.schema.reading import Effect

DECIDED_BY_TYPES: set[What] = {
    What.TYPE_WIDENED,
    What.TYPE_NARROWED,
    What.TYPE_CHANGED,
    What.FIELD_REPLACED,
}


@pytest.mark.parametrize("what", [what for what in What if what not in DECIDED_BY_TYPES])
def test_every_kind_has_its_rule_and_reason(what: What) -> None:
    found = change(what, "A.b", "c")
    assert (found.what, found.where, found.detail) == (what, "A.b", "c")
    assert found.why
    assert str(found) == f"A.b: {what.value} (c): {found.why}"


@pytest.mark.parametrize("what", [what for what in What if what in DECIDED_BY_TYPES])
def test_changes_of_field_types_are_not_in_the_table(what: What) -> None:
    with pytest.raises(KeyError):
        change(what, "A.b", "c")


def effects(old: Effect, new: Effect, stored: Effect = Effect.FINE) -> Change:
    return Change(
        what=What.TYPE_CHANGED,
        where="A.b",
        detail="",
        old_reader=old,
        new_reader=new,
        stored=stored,
        why="",
    )


def test_the_verdict_names_the_readers_that_break() -> None:
    fine, loses, breaks = Effect.FINE, Effect.LOSES, Effect.BREAKS
    assert verdict([]) is Verdict.COMPATIBLE
    assert verdict([effects(loses, loses, loses)]) is Verdict.COMPATIBLE
    assert verdict([effects(breaks, fine)]) is Verdict.OLD_READERS_BREAK
    assert verdict([effects(fine, breaks)]) is Verdict.NEW_READERS_BREAK
    assert verdict([effects(fine, fine, breaks)]) is Verdict.NEW_READERS_BREAK
    assert verdict([effects(breaks, fine), effects(fine, breaks)]) is Verdict.BOTH_BREAK


def test_effects_are_ordered_by_harm() -> None:
    assert Effect.FINE < Effect.LOSES < Effect.BREAKS
