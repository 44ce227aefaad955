from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import skerry
from skerry.limits import NAME_BYTES_MAX
from skerry.runtime.recordings.reader import open_recordings
from skerry.spark.jobs.definitions import TypeContent, content_of_segments, with_definition
from skerry.spark.lake.plans import TypeState
from tests.spark.lakes import Emitter, record

FIRST: Any = skerry.define_types("struct T { 1: [key] uint8 a; 2: string b; }").T
WIDER: Any = skerry.define_types("struct T { 1: [key] uint8 a; 2: string b; 3: bool c; }").T
OTHER: Any = skerry.define_types("struct T { 1: [key] uint8 a; 2: bool b; }").T
MESSAGE: Any = skerry.define_types("struct M [cached=false] { 1: uint8 a; }").M


def test_definitions_that_fit_share_a_table_and_others_get_their_own() -> None:
    states: dict[str, TypeState] = {}
    said: list[str] = []
    for cls in (FIRST, WIDER, OTHER, MESSAGE):
        state, notices = with_definition(states, cls.descriptor)
        states[state.table] = state
        said += notices
    assert list(states) == ["T", "T@2", "M"]
    assert len(states["T"].schema.fingerprints) == 2
    assert [states[name].is_cached for name in states] == [True, True, False]
    assert len(said) == 1
    assert said[0].startswith("T@2 is a separate table: two definitions of T do not fit")


def test_name_of_a_type_leads_nowhere_else() -> None:
    state, _ = with_definition({}, replace(FIRST.descriptor, name="../x"))
    assert state.table == "~2e~2e~2fx"


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("Vessel_2-b", "Vessel_2-b"),
        ("_delta_log", "~5fdelta_log"),
        (" ", "~20"),
        ("a%2Fb", "a~252Fb"),
        ("a~b", "a~7eb"),
        ("T@2", "T~402"),
        ("hour=1", "hour~3d1"),
        ("\xfc", "~c3~bc"),
        ("x" * 120, "x" * 120),
    ],
)
def test_folder_of_a_type_has_plain_letters_only(name: str, table: str) -> None:
    state, _ = with_definition({}, replace(FIRST.descriptor, name=name))
    assert state.table == table


def test_folders_of_long_names_are_short_and_apart() -> None:
    names = ["x" * 121, "x" * 122, "\xfc" * (NAME_BYTES_MAX // 2)]
    tables = {with_definition({}, replace(FIRST.descriptor, name=n))[0].table for n in names}
    assert {len(table) for table in tables} == {120}
    assert len(tables) == 3


def content(folder: Path, known: dict[str, TypeState]) -> TypeContent:
    (recording,) = open_recordings(folder)
    return content_of_segments(recording.segments(), known)


def test_segments_list_the_definitions_of_their_rows(tmp_path: Path) -> None:
    emitter = Emitter()
    rows = [emitter.create(FIRST(a=1)), emitter.create(WIDER(a=1)), emitter.create(MESSAGE(a=1))]
    record(tmp_path, rows, FIRST, WIDER)
    found = content(tmp_path, {})
    assert set(found.used) == {"T"}
    assert len(found.used["T"]) == 2
    again = content(tmp_path, dict(found.states))
    assert again.states == found.states
    record(tmp_path, [emitter.create(MESSAGE(a=2))], MESSAGE)
    assert set(content(tmp_path, {}).used) == {"T", "M"}
