"""Changes between definitions: every kind once, with its effect on readers."""

from __future__ import annotations

import pytest

from skerry.schema.changes import Verdict, What, verdict
from skerry.schema.check import define
from skerry.schema.evolve import compare, compare_all
from skerry.schema.model import NamedType
from skerry.schema.reading import Effect

F, L, B = Effect.FINE, Effect.LOSES, Effect.BREAKS


def types(text: str) -> tuple[NamedType, ...]:
    return define(text).types


def struct(fields: str, options: str = "", name: str = "A") -> str:
    return f"struct {name} [{options}] {{ {fields} }}"


ID = "1: [key] uint32 id;"

STRUCTS = [
    (ID, f"{ID} 2: bool b;", What.FIELD_ADDED, (F, F, F)),
    (ID, f"{ID} 2: [key] bool b;", What.KEY_ADDED, (L, B, B)),
    (f"{ID} 2: bool b;", f"{ID} 2: [removed] bool b;", What.FIELD_REMOVED, (L, F, F)),
    (f"{ID} 2: bool b;", ID, What.FIELD_DROPPED, (L, F, F)),
    (f"{ID} 2: [key] bool b;", ID, What.KEY_REMOVED, (B, L, B)),
    (f"{ID} 2: bool b;", f"{ID} 2: bool c;", What.FIELD_RENAMED, (F, F, F)),
    (f"{ID} 2: bool b;", f"{ID} 2: string c;", What.FIELD_REPLACED, (B, B, B)),
    (f"{ID} 2: int8 b;", f"{ID} 2: int16 c;", What.FIELD_REPLACED, (B, L, L)),
    (f"{ID} 2: bool b;", f"{ID} 3: bool b;", What.FIELD_RETAGGED, (B, B, B)),
    (ID, f"{ID} 2: [removed] bool b;", What.TAG_RESERVED, (F, F, F)),
    (f"{ID} 2: [removed] bool b;", ID, What.TAG_RELEASED, (F, F, F)),
    (
        f"{ID} 2: [removed] bool b;",
        f"{ID} 2: [removed] int8 b;",
        What.RESERVATION_EDITED,
        (F, F, F),
    ),
    (f"{ID} 2: [removed] bool b;", f"{ID} 2: bool b;", What.FIELD_ADDED, (F, F, F)),
    (f"{ID} 2: int8 b;", f"{ID} 2: int16 b;", What.TYPE_WIDENED, (B, F, F)),
    (f"{ID} 2: float64 b;", f"{ID} 2: float32 b;", What.TYPE_NARROWED, (F, B, B)),
    (f"{ID} 2: float64 b;", f"{ID} 2: duration b;", What.TYPE_CHANGED, (L, L, L)),
    (f"{ID} 2: string b;", f"{ID} 2: bytes b;", What.TYPE_CHANGED, (B, B, B)),
    ("1: [key] uint8 id;", "1: [key] uint32 id;", What.TYPE_WIDENED, (B, F, F)),
    ("1: [key] float32 id;", "1: [key] float64 id;", What.TYPE_CHANGED, (B, F, B)),
    ("1: [key] timepoint id;", "1: [key] float64 id;", What.TYPE_CHANGED, (L, L, L)),
    (f"{ID} 2: bool b;", f"{ID} 2: [key] bool b;", What.BECAME_KEY, (L, B, B)),
    (f"{ID} 2: [key] bool b;", f"{ID} 2: bool b;", What.NO_LONGER_KEY, (B, L, B)),
    (f"{ID} 2: bool b;", f"2: bool b; {ID}", What.ORDER_CHANGED, (F, F, F)),
    (f"{ID} 2: bool b;", f'{ID} 2: [default="true"] bool b;', What.DEFAULT_CHANGED, (F, F, F)),
    (f"{ID} 2: bool b;", f"{ID} 2: [ctor] bool b;", What.CONSTRUCTOR_CHANGED, (F, F, F)),
    (f"{ID} 2: bool b;", f"{ID} 2: [deprecated] bool b;", What.DEPRECATION_CHANGED, (F, F, F)),
    (f"{ID} 2: bool b;", f"{ID} 2: [x] bool b;", What.OPTIONS_CHANGED, (F, F, F)),
    (f"{ID} 2: bool b;", f"{ID} 2: bool b; //< Text.\n", What.DOCUMENTATION_CHANGED, (F, F, F)),
]

OPTIONS = [
    ("cached=false", "", What.BECAME_CACHED, (F, F, F)),
    ("", "cached=false", What.BECAME_UNCACHED, (L, F, L)),
    ("", 'internal, scope="site"', What.BECAME_INTERNAL, (B, F, F)),
    ('internal, scope="site"', "", What.NO_LONGER_INTERNAL, (F, F, F)),
    ("", "substruct_only", What.BECAME_SUBSTRUCT_ONLY, (L, B, B)),
    ("substruct_only", "", What.NO_LONGER_SUBSTRUCT_ONLY, (L, F, F)),
    ("", "persistent", What.BECAME_PERSISTENT, (F, F, F)),
    ("persistent", "", What.NO_LONGER_PERSISTENT, (F, F, L)),
    ("", "cleanup", What.CLEANUP_CHANGED, (F, F, F)),
    ("local", "", What.LOCAL_CHANGED, (F, F, F)),
    ("", "local", What.LOCAL_CHANGED, (F, F, F)),
    ("", 'scope="server"', What.SCOPE_NARROWED, (L, F, F)),
    ("", 'scope="global"', What.SCOPE_WIDENED, (F, F, F)),
    ("", 'scope="site"', What.SCOPE_WRITTEN, (F, F, F)),
    ("", "deprecated", What.DEPRECATION_CHANGED, (F, F, F)),
    ("", "x", What.OPTIONS_CHANGED, (F, F, F)),
]

ENUMS = [
    ("1: a", "1: a, 2: b", What.ELEMENT_ADDED, (B, F, F)),
    ("1: a, 2: b", "1: a", What.ELEMENT_REMOVED, (F, B, B)),
    ("1: a, 2: b", "1: a, 2: c", What.ELEMENT_RENAMED, (F, F, F)),
    ("1: a, 2: b = 1", "1: a, 3: b = 1", What.ELEMENT_RETAGGED, (B, B, B)),
    ("1: a, 2: b", "1: a, 2: b = 7", What.VALUE_CHANGED, (F, F, F)),
    ("1: a, 2: b", "2: b, 1: a", What.ORDER_CHANGED, (F, F, F)),
    ("1: a", "1: a //< Text.\n", What.DOCUMENTATION_CHANGED, (F, F, F)),
]


def check_one_change(
    old: str, new: str, what: What, effects: tuple[Effect, Effect, Effect]
) -> None:
    changes = compare(types(old)[0], types(new)[0])
    found = {one.what: one for one in changes}
    assert what in found
    one = found[what]
    assert (one.old_reader, one.new_reader, one.stored) == effects
    assert one.where.split(".")[0] == "A"


@pytest.mark.parametrize(("old", "new", "what", "effects"), STRUCTS)
def test_change_of_a_field(
    old: str, new: str, what: What, effects: tuple[Effect, Effect, Effect]
) -> None:
    check_one_change(struct(old), struct(new), what, effects)
    assert len(compare(types(struct(old))[0], types(struct(new))[0])) == 1


@pytest.mark.parametrize(("old", "new", "what", "effects"), OPTIONS)
def test_change_of_an_option(
    old: str, new: str, what: What, effects: tuple[Effect, Effect, Effect]
) -> None:
    check_one_change(struct(ID, old), struct(ID, new), what, effects)


@pytest.mark.parametrize(("old", "new", "what", "effects"), ENUMS)
def test_change_of_an_element(
    old: str, new: str, what: What, effects: tuple[Effect, Effect, Effect]
) -> None:
    check_one_change(f"enum A {{ {old} }}", f"enum A {{ {new} }}", what, effects)


def test_the_effect_of_local_is_reported_as_that_of_the_scope() -> None:
    def changes(old: str, new: str) -> dict[What, tuple[Effect, Effect, Effect]]:
        found = compare(types(struct(ID, old))[0], types(struct(ID, new))[0])
        return {one.what: (one.old_reader, one.new_reader, one.stored) for one in found}

    harmless = {What.LOCAL_CHANGED: (F, F, F)}
    assert changes("local", "") == {**harmless, What.SCOPE_WIDENED: (F, F, F)}
    assert changes("", "local") == {**harmless, What.SCOPE_NARROWED: (L, F, F)}
    assert changes('scope="server", local', 'scope="server"') == harmless
    assert changes("internal, local", "internal") == harmless


KEYED = "enum E {{ 1: {} }} struct A {{ 1: [key] {} id; 2: vector<E> more; }}"


@pytest.mark.parametrize(
    ("key", "what", "effects"),
    [
        ("E", What.KEY_ELEMENT_RENAMED, (L, L, L)),
        ("uint32", What.ELEMENT_RENAMED, (F, F, F)),
        # In the subject these stand as their bytes, which have the tag.
        ("vector<E>", What.ELEMENT_RENAMED, (F, F, F)),
    ],
)
def test_a_renamed_element_loses_objects_if_it_is_part_of_the_subject(
    key: str, what: What, effects: tuple[Effect, Effect, Effect]
) -> None:
    old, new = types(KEYED.format("a", key)), types(KEYED.format("b", key))
    for changes in (compare(old[1], new[1]), compare_all(old, new)):
        assert [(one.what, one.where, one.detail) for one in changes] == [(what, "E.a", "to b")]
        assert (changes[0].old_reader, changes[0].new_reader, changes[0].stored) == effects
        assert verdict(changes) is Verdict.COMPATIBLE


@pytest.mark.parametrize("key", ["P", "vector<P>"])
def test_a_change_inside_a_struct_of_the_key_breaks_everything(key: str) -> None:
    text = "struct P {{ 1: bool a; {} }} struct A {{ 1: [key] {} p; }}"
    old, new = types(text.format("", key)), types(text.format("2: bool b;", key))
    changes = compare(old[1], new[1])
    assert [(one.what, one.where, one.detail) for one in changes] == [
        (What.KEY_STRUCT_CHANGED, "A.p", "P"),
        (What.FIELD_ADDED, "P.b", "2: bool b"),
    ]
    assert (changes[0].old_reader, changes[0].new_reader, changes[0].stored) == (B, B, B)


def test_a_key_of_any_struct_in_the_set_counts() -> None:
    text = "enum E {{ 1: {} }} struct A {{ 1: E e; }} struct B {{ 1: [key] E e; }}"
    old, new = types(text.format("a")), types(text.format("b"))
    assert [one.what for one in compare_all(old, new)] == [What.KEY_ELEMENT_RENAMED]
    assert [one.what for one in compare(old[1], new[1])] == [What.ELEMENT_RENAMED]


def test_reuse_of_a_removed_tag_breaks_stored_data() -> None:
    old, new = struct(f"{ID} 2: [removed] bool b;"), struct(f"{ID} 2: string s;")
    changes = compare(types(old)[0], types(new)[0])
    assert [one.what for one in changes] == [What.TAG_REUSED, What.FIELD_ADDED]
    assert (changes[0].old_reader, changes[0].new_reader, changes[0].stored) == (F, F, B)
    assert verdict(changes) is Verdict.NEW_READERS_BREAK


def test_swapped_tags_are_two_retagged_fields() -> None:
    old, new = struct("1: bool a; 2: bool b;"), struct("2: bool a; 1: bool b;")
    changes = compare(types(old)[0], types(new)[0])
    assert [one.where for one in changes if one.what is What.FIELD_RETAGGED] == ["A.a", "A.b"]
    taken = [one for one in changes if one.what is What.TAG_TAKEN_OVER]
    assert [one.detail for one in taken] == ["tag 1, a to b", "tag 2, b to a"]
    assert {(one.old_reader, one.new_reader, one.stored) for one in taken} == {(B, B, B)}
    assert "reads one as the other" in taken[0].why
    assert verdict(changes) is Verdict.BOTH_BREAK


def test_new_field_under_the_tag_of_one_that_moved_takes_it_over() -> None:
    old, new = struct(f"{ID} 2: string name;"), struct(f"{ID} 2: string title; 3: string name;")
    changes = compare(types(old)[0], types(new)[0])
    assert [(one.what, one.where, one.detail) for one in changes] == [
        (What.FIELD_RETAGGED, "A.name", "2 to 3"),
        (What.TAG_TAKEN_OVER, "A.name", "tag 2, name to title"),
    ]


@pytest.mark.parametrize(
    ("new", "taken"),
    [
        ("1: b, 2: a", ["tag 1, a to b", "tag 2, b to a"]),
        ("1: a, 2: c, 3: b", ["tag 2, b to c"]),
        ("1: b", ["tag 1, a to b"]),
    ],
)
def test_elements_take_over_tags_too(new: str, taken: list[str]) -> None:
    changes = compare(types("enum A { 1: a, 2: b }")[0], types(f"enum A {{ {new} }}")[0])
    found = [one.detail for one in changes if one.what is What.TAG_TAKEN_OVER]
    assert found == taken
    assert not {What.ELEMENT_ADDED, What.ELEMENT_REMOVED} & {one.what for one in changes}


def test_field_that_moves_to_the_tag_of_another_takes_it_over() -> None:
    old, new = struct("1: bool a; 2: bool b;"), struct("1: bool b;")
    changes = compare(types(old)[0], types(new)[0])
    assert {(one.what, one.where) for one in changes} == {
        (What.TAG_TAKEN_OVER, "A.a"),
        (What.FIELD_RETAGGED, "A.b"),
    }


def test_types_that_are_used_are_compared_too_and_once() -> None:
    old = "enum E { 1: a } struct B { 1: E e; } struct A { 1: B b; 2: vector<E> c; 3: B d; }"
    new = old.replace("1: a", "1: a, 2: b")
    changes = compare(types(old)[-1], types(new)[-1])
    assert [(one.what, one.where) for one in changes] == [(What.ELEMENT_ADDED, "E.b")]
    assert verdict(changes) is Verdict.OLD_READERS_BREAK


def test_whole_sets_are_compared_by_name() -> None:
    old = types("enum E { 1: a } enum Gone { 1: a } struct S { 1: bool a; }")
    new = types("struct S { 1: bool a; } enum New { 1: b } struct E { 1: bool a; }")
    changes = compare_all(old, new)
    assert [(one.what, one.where) for one in changes] == [
        (What.TYPE_REPLACED, "E"),
        (What.TYPE_REMOVED, "Gone"),
        (What.TYPE_ADDED, "New"),
    ]
    effects = [(one.old_reader, one.new_reader, one.stored) for one in changes]
    assert effects == [(B, B, B), (L, L, L), (F, F, F)]


def test_renamed_types_of_whole_sets_are_compared_with_each_other() -> None:
    text = "enum {} {{ 1: a, 2: b }} struct {} {{ 1: [key] uint32 mmsi; 2: string name; {} }}"
    old, new = (
        types(text.format("Kind", "Vessel", "")),
        types(text.format("Sort", "Ship", "3: bool is_new;")),
    )
    changes = compare_all(old, new)
    assert [(one.what, one.where, one.detail) for one in changes] == [
        (What.TYPE_RENAMED, "Kind", "to Sort"),
        (What.TYPE_RENAMED, "Vessel", "to Ship"),
        (What.FIELD_ADDED, "Vessel.is_new", "3: bool is_new"),
    ]
    assert verdict(changes) is Verdict.BOTH_BREAK


@pytest.mark.parametrize("text", ["struct {} {{ 1: bool a; }}", "enum {} {{ 1: a }}"])
def test_another_name_is_another_type(text: str) -> None:
    changes = compare(types(text.format("A"))[0], types(text.format("B"))[0])
    assert [one.what for one in changes] == [What.TYPE_RENAMED]
    assert verdict(changes) is Verdict.BOTH_BREAK


def test_every_kind_of_change_is_provoked_here() -> None:
    provoked = {what for _, _, what, _ in STRUCTS + OPTIONS + ENUMS}
    elsewhere = {
        What.KEY_ELEMENT_RENAMED,
        What.KEY_STRUCT_CHANGED,
        What.TAG_REUSED,
        What.TAG_TAKEN_OVER,
        What.TYPE_ADDED,
        What.TYPE_REMOVED,
        What.TYPE_RENAMED,
        What.TYPE_REPLACED,
    }
    assert provoked | elsewhere == set(What)
