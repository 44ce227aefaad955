"""What a client may do: an ordered list of rules, of which the first that fits decides.

A rule names clients (by name, network and certificate), verbs and subjects. If no rule fits, the
client may not do it.

Without any rule, the origin decides. A Unix socket is protected by the mode of its file, so its
clients may do everything. Any user of this computer can connect to a loopback address, so its
clients may publish, subscribe and remove, but neither clear nor administer. Clients of other
computers may do nothing.

The rules that fit a client are selected once, when the client is accepted. The result, `Rights`, is
shared by all clients with the same rules, and decides by verb and subject.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from skerry.codec.pieces import canonical_key, split
from skerry.codec.subjects import short_subject, text_level
from skerry.engine.admission.origins import Origin, parse_origin_pattern
from skerry.errors import LocalProtocolError
from skerry.limits import NAME_BYTES_MAX, PATTERN_MEMO_CHAR_COUNT_MAX
from skerry.protocol.patterns import check_pattern, covers, overlaps

if TYPE_CHECKING:
    from skerry.engine.dispatch.topics import Topic


RIGHTS_COUNT_MAX: Final = 1000
"""Different sets of rules of clients that are cached and shared. Beyond it they are computed
again."""
RIGHTS_MEMO_COUNT_MAX: Final = 16_384
"""Decisions that one set of rules caches: about four megabytes of subjects."""

Verb: TypeAlias = Literal["publish", "subscribe", "remove", "clear", "administer"]

VERBS: Final[tuple[Verb, ...]] = get_args(Verb)
"""What a client can do: `publish` creates and updates objects and sends messages, `subscribe`
receives them, `remove` removes one object, `clear` removes all objects of a type, `administer`
changes which clients may connect."""

_OBJECT_VERBS: Final[tuple[Verb, ...]] = ("publish", "subscribe", "remove")
_ALL_SUBJECTS: Final = "/..."


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionRule:
    """One rule of the list. A field that is left out fits every client or subject."""

    verbs: tuple[Literal["publish", "subscribe", "remove", "clear", "administer", "all"], ...]
    """What it allows or denies; `all` is every verb."""
    subjects: tuple[str, ...] = (_ALL_SUBJECTS,)
    """Subject patterns, and names of types: a type `T` is `/T` and `/T/...`."""
    client: str = "*"
    """Name of the client, with the wild cards of file names: `*`, `?` and `[...]`."""
    network: str = ""
    """`unix`, `inside`, `local` (these two and loopback), an address or a network."""
    certificate: str = ""
    """Common name of the client's certificate, with the same wild cards; empty requires none."""
    allow: bool = True
    """Whether the verbs are allowed or denied."""

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
        parse_origin_pattern(self.network)

    def is_for(self, origin: Origin, name: str) -> bool:
        return (
            fnmatchcase(name, self.client)
            and parse_origin_pattern(self.network).has(origin)
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
    """What one client may do. Clients to which the same rules apply share one instance."""

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
        """Whether the client may publish, subscribe and remove everything."""
        self.may_publish: Final = any(is_allowed for _, is_allowed in self._decisions["publish"])
        """Whether the client may publish anything at all."""

    @property
    def allows_all(self) -> bool:
        """Whether the client may do everything."""
        return len(self._everywhere) == len(VERBS)

    def allows(self, verb: str, subject: str) -> bool:
        """Whether the client may do this with objects under a subject, which must be valid."""
        if verb in self._everywhere:
            return True
        known = self._memo.get((verb, subject))
        if known is not None:
            return known
        answer = self._decide(verb, subject)
        if len(subject) <= PATTERN_MEMO_CHAR_COUNT_MAX:
            # A client that uses ever new subjects must not fill the memory with decisions.
            if len(self._memo) >= RIGHTS_MEMO_COUNT_MAX:
                self._memo.clear()
            self._memo[verb, subject] = answer
        return answer

    def allows_group(self, verb: str, group: str) -> bool:
        """Whether the client may do this with all objects of a type or of a subject pattern.

        Raises LocalProtocolError for a group that begins with `/` and is not a pattern.
        """
        return verb in self._everywhere or self.group_verdict(verb, group) is True

    def allows_type(self, verb: str, type_name: str) -> bool | None:
        """The same for the objects of a type under their default subjects.

        True for all of them, False for none, None if it depends on the object.
        """
        return True if verb in self._everywhere else self.group_verdict(verb, type_name)

    def group_verdict(self, verb: str, group: str) -> bool | None:
        """True if the whole group is allowed, False if none of it is, None for a part of it."""
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
        """The decision about a pattern; None if its subjects are not all decided alike."""
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
    """The list of rules, and the rights that follow from it."""

    def __init__(self, rules: Sequence[PermissionRule]) -> None:
        self._rules = tuple(rules)
        self._shared: dict[tuple[int, ...], Rights] = {}

    def rights(self, origin: Origin, name: str) -> Rights:
        """What a client with this origin and name may do."""
        if not self._rules:
            return _default_rights(origin)
        fitting = tuple(i for i, rule in enumerate(self._rules) if rule.is_for(origin, name))
        known = self._shared.get(fitting)
        if known is None:
            known = Rights([self._rules[index] for index in fitting])
            if len(self._shared) >= RIGHTS_COUNT_MAX:
                self._shared.clear()
            self._shared[fitting] = known
        return known


def change_refusal(
    rights: Rights, topic: Topic, payload: bytes, *, chosen: str, is_remove: bool
) -> str | None:
    """Why a client may not publish or remove an object; None if it may.

    `chosen` is the subject under which the client publishes; empty for the default one.
    """
    verb = "remove" if is_remove else "publish"
    refusal = f"{chosen or topic.name}: not permitted"
    if chosen and not rights.allows(verb, chosen):
        return refusal
    # Under any subject, it is the object of that type and key. Only the bytes of a bare subject
    # have no other identity than their subject.
    is_bare = topic.name == "SkerryBytes" and chosen != ""
    allowed = True if is_bare else rights.allows_type(verb, topic.name)
    if allowed is False:
        return refusal
    plan = topic.plan
    pieces = split(plan, payload, 0)
    if allowed is None and not rights.allows(verb, short_subject(plan, pieces)):
        return refusal
    if plan.key_mask & ~pieces.present:
        # The object is rejected for its incomplete key when it is dispatched.
        return None
    # Publishing an object under another subject removes it from its current one, and discloses all
    # of its fields to other subscribers.
    known = topic.type_cache.objects.get(canonical_key(plan, pieces))
    is_permitted = known is None or not known.subject or rights.allows(verb, known.subject)
    return None if is_permitted else refusal


def _default_rights(origin: Origin) -> Rights:
    if origin.kind in ("unix", "inside"):
        return EVERYTHING
    return OBJECTS if origin.is_local else NOTHING


def _is_certified(origin: Origin, pattern: str) -> bool:
    # `*` must not fit a client without a certificate.
    return origin.certificate != "" and fnmatchcase(origin.certificate, pattern)


def _check_group(text: str) -> None:
    if text.startswith("/"):
        try:
            check_pattern(text)
        except LocalProtocolError as error:
            raise ValueError(f"{error} ({error.hint})") from None
        return
    if not text or len(text.encode()) > NAME_BYTES_MAX or any(c in text for c in "/*?\u2026 "):
        raise ValueError(f"{text!r} is neither a type name nor a pattern, which begins with /")
    if text == "...":
        raise ValueError("'...' is not a type name: write /... for all subjects")


EVERYTHING: Final = Rights([PermissionRule(verbs=("all",))])
"""What clients of Unix sockets and of the node's own program may do without rules."""
OBJECTS: Final = Rights([PermissionRule(verbs=_OBJECT_VERBS)])
"""What clients of loopback addresses may do without rules."""
NOTHING: Final = Rights([])
"""What other clients may do without rules."""
