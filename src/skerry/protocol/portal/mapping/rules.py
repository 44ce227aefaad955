"""The rules of a mapping: which publications and which objects correspond to each other."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import unquote_to_bytes

from skerry.codec.subjects import text_level
from skerry.errors import LocalProtocolError
from skerry.protocol.patterns import check_pattern
from skerry.protocol.portal.identifiers import Scheme, parse_scheme, scheme_text

BYTES_SUBJECT: Final = "/goby/{group}/{scheme}/{type}"
"""The subject of bytes for which a rule gives none."""

_ANY: Final = "*"
_PLACES: Final = ("{group}", "{scheme}", "{type}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PortalRule:
    """One rule. A publication is mapped by the first rule that matches it."""

    scheme: str
    """Scheme of the publications: `PROTOBUF`, `JSON`, `CSTR`, `DCCL`, `MAVLINK`, a number, or `*`
    for any (only into the space)."""
    group: str = _ANY
    """Group of the publications; `*` stands for any characters."""
    type: str = _ANY
    """Type of the publications, such as `nlohmann::json`; `*` stands for any characters."""
    direction: Literal["in", "out", "both"] = "in"
    """`in`: from the portal into the space; `out`: from the space to the portal."""
    object: str = ""
    """Type of the objects in the space. For PROTOBUF it is made of the message, and its default
    name is that of the message with `_` for each dot. For JSON it is a type of `types`; without it,
    JSON is mapped to bytes, as text."""
    key: tuple[str, ...] = ()
    """Key fields of a type that is made of a message; with a key, its objects are cached."""
    cached: bool = False
    """Whether the objects of a type without key that is made of a message are cached."""
    subject: str = ""
    """Subject in the space, in which the levels `{group}`, `{scheme}` and `{type}` stand for those
    of the publication. Empty for the default subject of objects, and for bytes
    `/goby/{group}/{scheme}/{type}`."""
    opaque: bool = False
    """Whether payloads of any scheme are mapped to bytes, unchanged."""

    def __post_init__(self) -> None:
        if self.scheme != _ANY:
            parse_scheme(self.scheme)
        for name, part in (("group", self.group), ("type", self.type)):
            if not part or "/" in part or "\0" in part:
                raise ValueError(f"{name} {part!r} is empty or contains a slash or a NUL")
        self._check_subject()
        self._check_object()
        if self.direction != "in":
            self._check_reversible()

    @property
    def number(self) -> int | None:
        """The scheme as a number; None for any."""
        return None if self.scheme == _ANY else parse_scheme(self.scheme)

    @property
    def is_in(self) -> bool:
        return self.direction != "out"

    @property
    def is_out(self) -> bool:
        return self.direction != "in"

    def is_bytes(self, scheme: int) -> bool:
        """Whether publications of a scheme are mapped to bytes, not to objects."""
        if self.opaque or scheme not in (Scheme.PROTOBUF, Scheme.JSON):
            return True
        return scheme == Scheme.JSON and not self.object

    def _check_subject(self) -> None:
        if not self.subject:
            return
        levels = self.subject.split("/")
        if any("{" in level and level not in _PLACES for level in levels):
            raise ValueError(
                f"subject {self.subject!r}: a level in braces must be one of {', '.join(_PLACES)}"
            )
        if any(level in (_ANY, "...") for level in levels):
            raise ValueError(f"subject {self.subject!r} contains a wild card")
        try:
            check_pattern(self.subject)
        except LocalProtocolError as error:
            raise ValueError(str(error)) from None

    def _check_object(self) -> None:
        number = self.number
        if self.object and (number is None or self.is_bytes(number)):
            raise ValueError("`object` needs the scheme PROTOBUF or JSON, and no `opaque`")
        if self.object and number == Scheme.PROTOBUF and _ANY in self.type:
            raise ValueError("`object` needs the `type` of one message, without *")
        if (self.key or self.cached) and (number != Scheme.PROTOBUF or self.opaque):
            raise ValueError(
                "`key` and `cached` are for types that are made of messages; the definition of"
                " any other type has them"
            )

    def _check_reversible(self) -> None:
        number = self.number
        if number is None:
            raise ValueError("scheme * is only for the direction `in`; name a scheme")
        subject = self.subject or (BYTES_SUBJECT if self.is_bytes(number) else "")
        if _ANY in self.group and "{group}" not in subject:
            raise ValueError(
                f"direction {self.direction} needs one group, or the level {{group}} in `subject`"
            )
        is_known = number == Scheme.CSTR or (
            not self.is_bytes(number) and number == Scheme.PROTOBUF
        )
        if _ANY in self.type and "{type}" not in subject and not is_known:
            raise ValueError(
                f"direction {self.direction} needs one type, such as nlohmann::json, or the level"
                " {type} in `subject`"
            )


class CompiledRule:
    """A rule, ready for use."""

    def __init__(self, rule: PortalRule) -> None:
        self.rule = rule
        number = rule.number
        self._group = _glob(rule.group)
        self._type = _glob(rule.type)
        subject = rule.subject
        if not subject and number is not None and rule.is_bytes(number):
            subject = BYTES_SUBJECT
        self._levels = subject.split("/") if subject else []

    def matches(self, group: str, scheme: int, type_name: str) -> bool:
        """Whether the rule is for publications with these three."""
        number = self.rule.number
        return (
            (number is None or number == scheme)
            and self._group.fullmatch(group) is not None
            and self._type.fullmatch(type_name) is not None
        )

    def matches_type(self, type_name: str) -> bool:
        return self._type.fullmatch(type_name) is not None

    @property
    def levels(self) -> tuple[str | None, int | None, str | None]:
        """Group, scheme and type to subscribe to; None for a level that may be any."""
        rule = self.rule
        if _ANY in rule.group:
            return None, None, None
        number = rule.number
        if number is None:
            return rule.group, None, None
        return rule.group, number, None if _ANY in rule.type else rule.type

    @property
    def pattern(self) -> str:
        """The subjects of the rule; empty if they are the default subjects of a type."""
        return "/".join(_ANY if level in _PLACES else level for level in self._levels)

    def subject_of(self, group: str, scheme: int, type_name: str, *, is_bytes: bool) -> str:
        """The subject of a publication; empty for the default subject of its object."""
        levels = self._levels
        if not levels and is_bytes:
            levels = BYTES_SUBJECT.split("/")
        values = dict(zip(_PLACES, (group, scheme_text(scheme), type_name), strict=True))
        return "/".join(text_level(values[level]) if level in values else level for level in levels)

    def group_and_type_of(self, subject: str, type_name: str) -> tuple[str, str] | None:
        """Group and type of the publication for what was published under a subject.

        `type_name` is the type if neither rule nor subject has it. None if the rule does not match.
        """
        values: dict[str, str] = {}
        if self._levels:
            levels = subject.split("/")
            if len(levels) != len(self._levels):
                return None
            for own, level in zip(self._levels, levels, strict=True):
                if own in _PLACES:
                    values[own] = unquote_to_bytes(level).decode("utf-8", "surrogateescape")
                elif own != level:
                    return None
        rule = self.rule
        number = rule.number
        assert number is not None
        group = values.get("{group}", rule.group)
        type_name = values.get("{type}", rule.type if _ANY not in rule.type else type_name)
        if values.get("{scheme}", scheme_text(number)) != scheme_text(number):
            return None
        return (group, type_name) if self.matches(group, number, type_name) else None


def _glob(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, re.split(r"\*+", text))), re.DOTALL)
