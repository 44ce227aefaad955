"""Internal types: complete, internal, with the order and the tags of the wire."""

from __future__ import annotations

import pytest

from skerry import limits
from skerry.schema.check import define
from skerry.schema.internal import INTERNAL_TEXT, internal_types
from skerry.schema.model import EnumType, Scope, StructType, dependencies

ORDER = {
    "DotsHeader": [1, 2, 7, 3, 5, 8, 4, 6, 9, 20, 21, 22, 23],
    "DotsTransportHeader": [1, 2, 3, 4, 5],
    "DotsMsgConnectResponse": [1, 5, 2, 3, 4, 20],
    "DotsAuthentication": [1, 2, 3, 6, 4, 5],
    "EnumDescriptorData": [1, 2, 4],
    "DotsPredicateValue": [1, 2, 3, 4, 5, 6, 7, 8, 20, 21, 22, 23, 24, 25],
    "DotsMember": [1, 2, 3, 4, 5, 20],
    "DotsMsgConnect": [1, 2, 3, 4, 5, 20],
    "DotsServerCapabilities": [1, 20],
}
KEYS = {
    "StructDescriptorData": ["name"],
    "EnumDescriptorData": ["name"],
    "DotsClient": ["id"],
    "DotsDaemonStatus": ["serverName"],
    "DotsClientStatistics": ["clientId"],
    "DotsNetwork": ["network", "prefix"],
    "DotsAuthentication": ["nameSpace", "network", "clientName", "priority"],
    "DotsAuthenticationPolicy": ["nameSpace"],
    "DotsContinuousRecorderStatus": ["recorderId"],
    "DotsRecordHeader": ["name"],
    "SkerryConflict": ["typeName"],
    "SkerryHolder": ["kind", "subject"],
    "SkerryLedger": ["kind", "name"],
    "SkerryLink": ["sender", "receiver"],
    "SkerryProbe": ["node"],
    "SkerryRawStatistics": ["observer", "node"],
}
CACHED = {
    *("DotsClient", "DotsStatistics", "DotsCacheStatus", "DotsResourceUsage", "DotsDaemonStatus"),
    *("DotsClientStatistics", "DotsNetwork", "DotsAuthentication", "DotsAuthenticationPolicy"),
    *("DotsContinuousRecorderStatus", "SkerryConflict", "SkerryHolder", "SkerryNode"),
    "SkerryPicture",
}
ENUMS = {
    "DotsConnectionState": {
        1: "connecting",
        2: "early_subscribe",
        3: "connected",
        4: "suspended",
        5: "closed",
    },
    "DotsMemberEvent": {1: "join", 2: "leave", 3: "kill"},
    "DotsStructScope": {1: "program", 2: "server", 3: "site", 4: "global"},
    "DotsMt": {1: "create", 2: "update", 3: "remove"},
    "DotsContinuousRecorderState": {1: "idle", 2: "recording", 3: "dumping"},
    "DotsPredicateKind": {1: "leaf", 2: "andOp", 3: "orOp", 4: "notOp"},
    "SkerrySlow": {1: "disconnect", 2: "conflate"},
}


def structs() -> list[StructType]:
    return [type_ for type_ in internal_types().values() if isinstance(type_, StructType)]


def test_the_text_has_only_the_warning_about_a_struct_key() -> None:
    (warning,) = define(INTERNAL_TEXT, is_internal=True).warnings
    assert warning.message.startswith("key `network` is of type DotsNetwork")
    assert internal_types() is internal_types()


def test_all_structs_are_internal_and_of_scope_server() -> None:
    assert all(struct.flags.internal for struct in structs())
    assert {struct.effective_scope for struct in structs()} == {Scope.SERVER}


def test_only_types_with_a_state_are_cached() -> None:
    assert {struct.name for struct in structs() if struct.flags.cached} == CACHED


@pytest.mark.parametrize("name", ORDER)
def test_fields_are_in_wire_order(name: str) -> None:
    struct = internal_types()[name]
    assert isinstance(struct, StructType)
    assert [field.tag for field in struct.fields] == ORDER[name]


def test_keys_are_those_of_the_wire() -> None:
    keys = {
        struct.name: [field.name for field in struct.key_fields]
        for struct in structs()
        if struct.key_fields
    }
    assert keys == KEYS


@pytest.mark.parametrize("name", ENUMS)
def test_elements_are_those_of_the_wire(name: str) -> None:
    enum = internal_types()[name]
    assert isinstance(enum, EnumType)
    assert {element.tag: element.name for element in enum.elements} == ENUMS[name]


def test_additions_to_types_of_the_wire_begin_at_tag_20() -> None:
    compare = internal_types()["DotsCompareOp"]
    assert isinstance(compare, EnumType)
    assert [element.tag for element in compare.elements] == [*range(1, 11), 20]
    for name in ("DotsHeader", "DotsMember", "DotsMsgConnect", "DotsServerCapabilities"):
        struct = internal_types()[name]
        assert isinstance(struct, StructType)
        marked = [f.tag for f in struct.fields if f.documentation.startswith("addition")]
        assert marked == [tag for tag in ORDER[name] if tag >= 20]


def test_every_type_is_made_of_internal_types() -> None:
    for struct in structs():
        assert {used.name for used in dependencies(struct)} <= set(internal_types())


def test_all_names_are_reserved_for_internal_types() -> None:
    text = "".join(f"enum {name} {{ 1: a }}\n" for name in internal_types())
    warnings = define(text).warnings
    assert [(one.text, one.message) for one in warnings] == [
        (name, f"`{name}` is a name for internal types") for name in internal_types()
    ][: limits.PROBLEM_COUNT_MAX]
    rest = list(internal_types())[limits.PROBLEM_COUNT_MAX :]
    text = "".join(f"enum {name} {{ 1: a }}\n" for name in rest)
    assert [one.text for one in define(text).warnings] == rest
