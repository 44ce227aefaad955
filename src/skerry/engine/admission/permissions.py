"""What a client may do: an ordered list of rules, of which the first that fits decides.

A rule says for which clients it is (name, place, certificate), for which verbs and for which
subjects. Where no rule fits, nothing is allowed.

Where there is no rule at all, it depends on the origin. A Unix socket is protected by the mode of
its file, so its clients may do everything. Any user of this computer can connect to a loopback
address, so its clients may publish, subscribe and remove, but neither clear nor administer. Clients
of other computers may do nothing.

The rules that fit a client are picked out once, when it has come in; what is left then, `Rights`,
is the same for many clients, and answers by verb and subject.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal, TypeAlias, get_args

from skerry.codec.subjects import text_level
from skerry.engine.admission.origins import Origin, parse_place
from skerry.errors import LocalProtocolError
from skerry.limits import NAME_BYTES_MAX, PATTERN_MEMO_CHAR_COUNT_MAX
from skerry.protocol.patterns import check_pattern, covers, overlaps

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "OBJECTS",
    "RIGHTS_COUNT_MAX",
    "RIGHTS_MEMO_COUNT_MAX",
    "VERBS",
    "PermissionRule",
    "Permissions",
    "Rights",
    "Verb",
    "group_patterns",
]

RIGHTS_COUNT_MAX: Final = 1000
"""Different sets of rules of clients that are cached and shared. Beyond it they are computed
again."""
RIGHTS_MEMO_COUNT_MAX: Final = 16_384
"""Decisions that one set of rules caches: about four megabytes of subjects."""

Verb: TypeAlias = Literal["publish", "subscribe", "remove", "clear", "administer"]

VERBS: Final[tuple[Verb, ...]] = get_args(Verb)
"""What a client can do: `publish` creates and updates objects and sends messages, `subscribe`
receives them, `remove` removes one object, `clear` all of a type, `administer` changes who may
come in."""

_OBJECT_VERBS: Final[tuple[Verb, ...]] = ("publish", "subscribe", "remove")
_ALL_SUBJECTS: Final = "/..."


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionRule:
    """One rule of the list. What it does not name, it does not ask for."""

    verbs: tuple[Literal["publish", "subscribe", "remove", "clear", "administer", "all"], ...]
    """What it is about; `all` is every verb."""
    subjects: tuple[str, ...] = (_ALL_SUBJECTS,)
    """Subject patterns, and names of types: a type `T` is `/T` and `/T/...`."""
    client: str = "*"
    """Name of the client; `*`, `?` and `[...]` as in names of files."""
    network: str = ""
    """`unix`, `inside`, `local` (these two and loopback), an address or a network."""
    certificate: str = ""
    """Common name of the client's certificate, with the same wild cards; empty asks for none."""
    allow: bool = True
    """Whether what fits is allowed or denied."""

    def __post_init__(self) -> None:
        if not self.verbs:
            raise ValueError("verbs is empty: name some of " + ", ".join((*VERBS, "all")))
        if not self.subjects:
            raise ValueError('subjects is empty: leave it out, or write ["/..."] for all')
        for verb in self.verbs:
            if verb not in (*VERBS, "all"):
                raise ValueError(f"{verb!r} is not a verb: use {', '.join((*VERBS, 'all'))}")
        for subject in self.subjects:
            _check_group(subject)
        parse_place(self.network)

    def is_for(self, origin: Origin, name: str) -> bool:
        """Whether the rule is for this client."""
        return (
            fnmatchcase(name, self.client)
            and parse_place(self.network).has(origin)
            and (not self.certificate or _is_certified(origin, self.certificate))
        )

    def patterns(self) -> list[str]:
        """All its subjects as patterns."""
        return [pattern for subject in self.subjects for pattern in group_patterns(subject)]


def group_patterns(group: str) -> list[str]:
    """The subjects of a group: a pattern itself, and for a type's name those of its objects."""
    if group.startswith("/"):
        return [check_pattern(group)]
    level = text_level(group)
    return [f"/{level}", f"/{level}/..."]


class Rights:
    """What one client may do. Clients for which the same rules hold share one."""

    __slots__ = ("_decisions", "_everywhere", "_groups", "_memo", "allows_objects", "may_publish")

    def __init__(self, rules: Sequence[PermissionRule]) -> None:
        self._decisions: dict[str, list[tuple[str, bool]]] = {
            verb: [
                (pattern, rule.allow)
                for rule in rules
                if verb in rule.verbs or "all" in rule.verbs
                for pattern in rule.patterns()
            ]
            for verb in VERBS
        }
        self._memo: dict[tuple[str, str], bool] = {}
        self._groups: dict[tuple[str, str], bool | None] = {}
        self._everywhere: Final = frozenset(
            verb for verb in VERBS if self._verdict(verb, _ALL_SUBJECTS) is True
        )
        self.allows_objects: Final = self._everywhere.issuperset(_OBJECT_VERBS)
        """Whether it may publish, subscribe and remove everything."""
        self.may_publish: Final = any(is_allowed for _, is_allowed in self._decisions["publish"])
        """Whether it may publish anything at all."""

    @property
    def allows_all(self) -> bool:
        """Whether it may do everything."""
        return len(self._everywhere) == len(VERBS)

    def allows(self, verb: str, subject: str) -> bool:
        """Whether it may do this with what is published under a subject, which is a checked one."""
        if verb in self._everywhere:
            return True
        known = self._memo.get((verb, subject))
        if known is not None:
            return known
        answer = self._decide(verb, subject)
        if len(subject) <= PATTERN_MEMO_CHAR_COUNT_MAX:
            # Whoever makes up subjects must not fill the memory with the answers.
            if len(self._memo) >= RIGHTS_MEMO_COUNT_MAX:
                self._memo.clear()
            self._memo[verb, subject] = answer
        return answer

    def allows_group(self, verb: str, group: str) -> bool:
        """Whether it may do this with the whole of a type or of a subject pattern.

        LocalProtocolError when a group begins with `/` and is no pattern.
        """
        return verb in self._everywhere or self.group_verdict(verb, group) is True

    def allows_type(self, verb: str, type_name: str) -> bool | None:
        """The same for a type: True for all objects of it, False for none, None if it depends.

        It is about objects under their default subjects.
        """
        return True if verb in self._everywhere else self.group_verdict(verb, type_name)

    def group_verdict(self, verb: str, group: str) -> bool | None:
        """True: all of it is allowed; False: nothing of it; None: a part, or it cannot be told."""
        if (verb, group) in self._groups:
            return self._groups[verb, group]
        verdicts = {self._verdict(verb, pattern) for pattern in group_patterns(group)}
        answer = verdicts.pop() if len(verdicts) == 1 else None
        if len(group) <= PATTERN_MEMO_CHAR_COUNT_MAX:
            if len(self._groups) >= RIGHTS_MEMO_COUNT_MAX:
                self._groups.clear()
            self._groups[verb, group] = answer
        return answer

    def _decide(self, verb: str, subject: str) -> bool:
        for pattern, is_allowed in self._decisions[verb]:
            if covers(pattern, subject):
                return is_allowed
        return False

    def _verdict(self, verb: str, group: str) -> bool | None:
        """What is decided about all subjects of a pattern alike; None if it is not alike."""
        seen: set[bool] = set()
        for pattern, is_allowed in self._decisions[verb]:
            if overlaps(pattern, group):
                seen.add(is_allowed)
                if covers(pattern, group):
                    break
        else:
            seen.add(False)
        return seen.pop() if len(seen) == 1 else None


class Permissions:
    """The whole list, and the rights that follow from it."""

    def __init__(self, rules: Sequence[PermissionRule]) -> None:
        self._rules = tuple(rules)
        self._shared: dict[tuple[int, ...], Rights] = {}

    def rights(self, origin: Origin, name: str) -> Rights:
        """What a client may do who comes from there and has this name."""
        if not self._rules:
            return _unruled(origin)
        fitting = tuple(i for i, rule in enumerate(self._rules) if rule.is_for(origin, name))
        known = self._shared.get(fitting)
        if known is None:
            known = Rights([self._rules[index] for index in fitting])
            if len(self._shared) >= RIGHTS_COUNT_MAX:
                self._shared.clear()
            self._shared[fitting] = known
        return known


def _unruled(origin: Origin) -> Rights:
    if origin.kind in ("unix", "inside"):
        return EVERYTHING
    return OBJECTS if origin.is_local else NOTHING


def _is_certified(origin: Origin, pattern: str) -> bool:
    # Who has no certificate has no name in one, and `*` must not let it pass.
    return origin.certificate != "" and fnmatchcase(origin.certificate, pattern)


def _check_group(text: str) -> None:
    if text.startswith("/"):
        try:
            check_pattern(text)
        except LocalProtocolError as error:
            raise ValueError(f"{error} ({error.hint})") from None
        return
    if not text or len(text.encode()) > NAME_BYTES_MAX or any(c in text for c in "/*?\u2026 "):
        raise ValueError(f"{text!r} is no type name and does not begin with / as a pattern does")
    if text == "...":
        raise ValueError("'...' is no type name: write /... for all subjects")


EVERYTHING: Final = Rights([PermissionRule(verbs=("all",))])
"""What clients of Unix sockets and of the node's own program may do where there are no rules."""
OBJECTS: Final = Rights([PermissionRule(verbs=_OBJECT_VERBS)])
"""What clients of loopback addresses may do there."""
NOTHING: Final = Rights([])
"""What others may do there."""
