"""Permissions: the first rule that fits decides, and nothing is allowed without one."""

from __future__ import annotations

from typing import Any

import pytest

import skerry
from skerry.engine.admission.origins import INSIDE, Origin
from skerry.engine.admission.permissions import (
    EVERYTHING,
    NOTHING,
    RIGHTS_COUNT_MAX,
    RIGHTS_MEMO_COUNT_MAX,
    VERBS,
    PermissionRule,
    Permissions,
    Rights,
    change_refusal,
    group_patterns,
)
from skerry.engine.dispatch.cache import TypeCache
from skerry.engine.dispatch.topics import Topic
from skerry.errors import LocalProtocolError
from skerry.limits import NAME_BYTES_MAX, PATTERN_MEMO_CHAR_COUNT_MAX
from skerry.objects.base import codec_of

Boat = skerry.define_types("struct Boat { 1: [key] uint32 id; 2: string name; }").Boat

LOOPBACK = Origin(kind="tcp", host="127.0.0.1")
LAN = Origin(kind="tcp", host="10.1.2.3")
UNIX = Origin(kind="unix")


def allow(*subjects: str, verbs: tuple[Any, ...] = ("publish",), **more: Any) -> PermissionRule:
    return PermissionRule(verbs=verbs, subjects=subjects or ("/...",), **more)


def deny(*subjects: str, verbs: tuple[Any, ...] = ("publish",), **more: Any) -> PermissionRule:
    return allow(*subjects, verbs=verbs, allow=False, **more)


def rights(*rules: PermissionRule, origin: Origin = LAN, name: str = "tracker") -> Rights:
    return Permissions(rules).rights(origin, name)


@pytest.mark.parametrize(
    "origin",
    [
        LOOPBACK,
        Origin(kind="tcp", host="::1"),
        Origin(kind="tcp", host="::ffff:127.0.0.1"),
        Origin(kind="websocket", host="127.0.0.1"),
        Origin(kind="tls", host="127.0.0.1", certificate="x"),
    ],
)
def test_without_rules_any_user_of_this_computer_may_neither_clear_nor_administer(
    origin: Origin,
) -> None:
    mine = rights(origin=origin)
    assert mine.allows_objects, "the fast way is open to it"
    allowed = {verb for verb in VERBS if mine.allows(verb, "/any/thing")}
    assert allowed == {"publish", "subscribe", "remove"}
    assert mine.allows_group("subscribe", "/...")
    assert mine.allows_type("clear", "Vessel") is False
    assert not mine.allows_group("administer", "DotsAuthentication")


def test_a_rule_allows_loopback_everything() -> None:
    assert rights(allow(verbs=("all",), network="local"), origin=LOOPBACK).allows_all


@pytest.mark.parametrize("origin", [UNIX, INSIDE])
def test_without_rules_unix_sockets_may_do_everything(origin: Origin) -> None:
    mine = rights(origin=origin)
    assert mine.allows_all
    assert all(mine.allows(verb, "/any/thing") for verb in VERBS)
    assert mine.allows_group("subscribe", "/...")
    assert mine.allows_type("clear", "Vessel") is True


@pytest.mark.parametrize("origin", [LAN, Origin(kind="tls", host="10.1.2.3", certificate="x")])
def test_without_rules_remote_clients_may_do_nothing(origin: Origin) -> None:
    theirs = rights(origin=origin)
    assert not theirs.allows_all
    assert not any(theirs.allows(verb, "/any/thing") for verb in VERBS)
    assert not theirs.allows_group("subscribe", "/a")
    assert theirs.allows_type("publish", "Vessel") is False


def test_with_rules_this_computer_needs_one_too() -> None:
    mine = rights(allow("/a"), origin=UNIX)
    assert mine.allows("publish", "/a")
    assert not mine.allows("publish", "/b")


def test_the_first_rule_that_fits_decides() -> None:
    both = [allow("/a/open"), deny("/a/..."), allow()]
    mine = rights(*both)
    seen = {s: mine.allows("publish", s) for s in ("/a/open", "/a/x", "/a", "/b")}
    assert seen == {"/a/open": True, "/a/x": False, "/a": True, "/b": True}
    assert rights(*reversed(both)).allows("publish", "/a/x")


def test_a_rule_applies_to_its_verbs_only() -> None:
    mine = rights(allow(verbs=("subscribe", "clear")))
    assert {v for v in VERBS if mine.allows(v, "/x")} == {"subscribe", "clear"}
    assert {v for v in VERBS if rights(allow(verbs=("all",))).allows(v, "/x")} == set(VERBS)


def test_a_type_name_stands_for_its_subject_and_all_below() -> None:
    mine = rights(allow("Vessel"))
    seen = {s: mine.allows("publish", s) for s in ("/Vessel", "/Vessel/1", "/Vessel/1/2", "/Ves")}
    assert seen == {"/Vessel": True, "/Vessel/1": True, "/Vessel/1/2": True, "/Ves": False}
    assert mine.allows_type("publish", "Vessel") is True
    assert mine.allows_type("publish", "Port") is False


@pytest.mark.parametrize(
    ("name", "patterns"),
    [
        ("Vessel", ["/Vessel", "/Vessel/..."]),
        ("a/b", ["/a%2Fb", "/a%2Fb/..."]),
        ("*", ["/%2A", "/%2A/..."]),
        ("...", ["/%2E%2E%2E", "/%2E%2E%2E/..."]),
        ("~x", ["/%7Ex", "/%7Ex/..."]),
        ("/a/\u2026", ["/a/..."]),
    ],
)
def test_the_patterns_of_a_group_are_those_of_default_subjects(
    name: str, patterns: list[str]
) -> None:
    assert group_patterns(name) == patterns


@pytest.mark.parametrize(
    ("more", "name", "origin", "is_for"),
    [
        ({"client": "track*"}, "tracker", LAN, True),
        ({"client": "track*"}, "Tracker", LAN, False),
        ({"client": "track*"}, "backtracker", LAN, False),
        ({"client": "t?[a-z]cker"}, "tracker", LAN, True),
        ({"network": "10.0.0.0/8"}, "x", LAN, True),
        ({"network": "10.0.0.0/8"}, "x", LOOPBACK, False),
        ({"network": "unix"}, "x", UNIX, True),
        ({"network": "unix"}, "x", INSIDE, False),
        ({"network": "local"}, "x", LOOPBACK, True),
        ({"network": "local"}, "x", LAN, False),
        (
            {"certificate": "*.fleet"},
            "x",
            Origin(kind="tls", host="::2", certificate="a.fleet"),
            True,
        ),
        (
            {"certificate": "*.fleet"},
            "x",
            Origin(kind="tls", host="::2", certificate="fleet"),
            False,
        ),
        ({"certificate": "*"}, "x", Origin(kind="tls", host="::2"), False),
        ({"certificate": "*"}, "x", UNIX, False),
        ({"client": "a", "network": "unix"}, "a", LAN, False),
    ],
)
def test_a_rule_applies_to_the_clients_it_names(
    more: dict[str, Any], name: str, origin: Origin, is_for: bool
) -> None:
    assert rights(allow(**more), origin=origin, name=name).allows("publish", "/x") is is_for


@pytest.mark.parametrize(
    ("rules", "group", "verdict"),
    [
        ([allow()], "/...", True),
        ([allow("/a/...")], "/a/...", True),
        ([allow("/a/...")], "/a/*/b", True),
        ([allow("/a/...")], "/a", False),
        ([allow("/a/...")], "/...", None),
        ([allow("/a/b")], "/a/*", None),
        ([allow("/a/b")], "/b/*", False),
        ([deny("/a/secret"), allow()], "/a/*", None),
        ([deny("/a/secret"), allow()], "/b/*", True),
        ([allow("/a/b"), allow()], "/...", True),
        ([deny("/a/b"), deny()], "/...", False),
        ([allow("/a/..."), deny()], "/a/b", True),
        ([allow(), deny("/a")], "/...", True),
        ([allow("Vessel")], "Vessel", True),
        ([allow("/Vessel/...")], "Vessel", None),
        ([deny("/Vessel/7"), allow("Vessel")], "Vessel", None),
        ([], "Vessel", False),
    ],
)
def test_a_group_is_allowed_only_as_a_whole(
    rules: list[PermissionRule], group: str, verdict: bool | None
) -> None:
    mine = Rights(rules)
    for _ in ("asked", "remembered"):
        assert mine.group_verdict("publish", group) is verdict
        assert mine.allows_group("publish", group) is (verdict is True)
    if not group.startswith("/"):
        assert mine.allows_type("publish", group) is verdict


def test_an_invalid_pattern_is_not_a_group() -> None:
    with pytest.raises(LocalProtocolError, match="something follows"):
        NOTHING.allows_group("subscribe", "/a/.../b")


def test_allows_all_requires_every_verb_for_every_subject() -> None:
    assert EVERYTHING.allows_all
    assert Rights([allow("/a"), allow(verbs=("all",))]).allows_all
    assert Rights([allow(verbs=VERBS)]).allows_all
    assert not Rights([deny("/a"), allow(verbs=("all",))]).allows_all
    assert not Rights([allow(verbs=VERBS[:-1])]).allows_all
    assert not NOTHING.allows_all


def test_clients_of_the_same_rules_share_their_rights() -> None:
    permissions = Permissions([allow(client="a*"), allow("/x", network="unix")])
    first = permissions.rights(LAN, "anna")
    assert permissions.rights(LOOPBACK, "arne") is first
    assert permissions.rights(UNIX, "arne") is not first


def test_the_number_of_shared_rights_is_limited() -> None:
    bits = [allow(f"/{bit}", client=f"{'?' * bit}1*") for bit in range(11)]
    permissions = Permissions(bits)
    for number in range(RIGHTS_COUNT_MAX + 1):
        permissions.rights(LAN, f"{number:011b}")
    assert len(permissions._shared) == 1
    assert permissions.rights(LAN, f"{1:011b}").allows("publish", "/10")


def test_remembered_decisions_are_limited() -> None:
    mine = rights(allow("/*/x"))
    for number in range(RIGHTS_MEMO_COUNT_MAX + 1):
        assert mine.allows("publish", f"/{number}/x")
        assert len(mine._memo) <= RIGHTS_MEMO_COUNT_MAX
    assert len(mine._memo) == 1
    for number in range(RIGHTS_MEMO_COUNT_MAX + 1):
        assert mine.allows_type("publish", f"T{number}") is None
    assert len(mine._groups) == 1


def test_decisions_about_long_subjects_are_not_remembered() -> None:
    mine = rights(allow("/*"))
    longest = "/".ljust(PATTERN_MEMO_CHAR_COUNT_MAX, "x")
    assert mine.allows("publish", longest)
    assert mine.allows("publish", longest + "x")
    assert list(mine._memo) == [("publish", longest)]
    assert mine.allows_type("publish", longest.replace("/", "x") + "x") is None
    assert mine._groups == {}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"verbs": ()}, "verbs is empty"),
        ({"verbs": ("read",)}, "'read' is not a verb"),
        ({"subjects": ()}, "subjects is empty"),
        ({"subjects": ("/a/.../b",)}, "something follows after ... .*last level"),
        ({"subjects": ("a/b",)}, "neither a type name"),
        ({"subjects": ("*",)}, "neither a type name"),
        ({"subjects": ("...",)}, "write /..."),
        ({"subjects": ("",)}, "neither a type name"),
        ({"subjects": ("x" * (NAME_BYTES_MAX + 1),)}, "neither a type name"),
        ({"network": "10.0.0.0/99"}, "is not a network"),
    ],
)
def test_an_invalid_rule_is_rejected(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        PermissionRule(**{"verbs": ("publish",), **fields})


@pytest.mark.parametrize(
    ("rule", "chosen", "is_permitted"),
    [
        (allow("Boat"), "", True),
        (allow("/Boat/7"), "", True),
        (allow("/Boat/8"), "", False),
        (allow("Boat"), "/harbour", False),
        (allow("/harbour"), "/harbour", False),
        (allow("Boat", "/harbour"), "/harbour", True),
    ],
)
def test_an_update_needs_the_right_to_its_object_and_to_its_subject(
    rule: PermissionRule, chosen: str, is_permitted: bool
) -> None:
    plan = codec_of(Boat).plan
    facts = {"is_cached": True, "is_persistent": False, "is_special": False}
    topic = Topic(Boat.descriptor, plan, TypeCache("Boat"), **facts)
    payload = Boat(id=7).encode()
    why = change_refusal(rights(rule), topic, payload, chosen=chosen, is_remove=False)
    assert why == (None if is_permitted else f"{chosen or 'Boat'}: not permitted")
    assert change_refusal(rights(rule), topic, payload, chosen=chosen, is_remove=True)


def test_the_longest_type_name_is_accepted() -> None:
    name = "x" * NAME_BYTES_MAX
    assert rights(allow(name)).allows("publish", f"/{name}/1")
