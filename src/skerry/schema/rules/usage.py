"""Rules about imports, packages, documentation, names and keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from skerry.schema.language.problems import ProblemList
from skerry.schema.language.syntax import (
    Comment,
    ElementSyntax,
    EnumSyntax,
    FieldSyntax,
    Item,
    StructSyntax,
    SyntaxFile,
    Word,
)
from skerry.schema.model import FieldType, Kind
from skerry.schema.rules.typenames import BUILT_IN_NAMES, TypeNames

_UNSTABLE_KEYS: Final = {
    **dict.fromkeys((Kind.FLOAT16, Kind.FLOAT32, Kind.FLOAT64), "floats are rarely equal"),
    **dict.fromkeys(
        (Kind.TIMEPOINT, Kind.STEADY_TIMEPOINT, Kind.DURATION),
        "times are transmitted as floats, which are rarely equal",
    ),
    Kind.VECTOR: "an object whose key grows is another object",
    Kind.STRUCT: "a struct with a new field is not equal to the old one",
    Kind.ANY: "equality depends on its content",
}


def check_imports(file: SyntaxFile, names: TypeNames, problems: ProblemList) -> None:
    """Report imports without a definition, and repeated ones."""
    own = {item.name.text for item in file.types}
    seen: dict[str, Word] = {}
    for item in file.imports:
        name = item.name
        first = seen.setdefault(name.text, name)
        if name.text in BUILT_IN_NAMES:
            problems.error(name, f"`{name.text}` is built in and needs no import", hint="remove it")
        elif first is not name:
            problems.warning(name, f"`{name.text}` is imported twice: first on line {first.line}")
        elif name.text in own:
            problems.warning(name, f"`{name.text}` is imported where it is defined")
        elif names.is_complete and not names.has(name.text):
            guess = names.guess(name.text, problems, with_built_in=False)
            problems.error(
                name,
                f"there is no type `{name.text}` to import",
                hint=(
                    f"did you mean `{guess}`?"
                    if guess
                    else f"give the file that defines it, or put `{name.text}.dots` beside this one"
                ),
            )


def check_packages(file: SyntaxFile, problems: ProblemList) -> None:
    """Report a second package of a file."""
    for item in file.packages[1:]:
        first = file.packages[0].name
        problems.error(
            item.name, f"the file is already in package `{first.text}` of line {first.line}"
        )


_INTERNAL_PREFIXES: Final = ("Dots", "Skerry")
_INTERNAL_NAMES: Final = frozenset(
    {
        *("EnumDescriptorData", "EnumElementDescriptor"),
        *("StructDescriptorData", "StructDocumentation", "StructPropertyData"),
    }
)
"""Names of internal types without one of the prefixes."""


def check_internal_names(file: SyntaxFile, problems: ProblemList) -> None:
    """Warn of names of internal types for other types."""
    for item in file.types:
        name = item.name.text
        is_internal = any(
            option.name.text == "internal" and option.value is True for option in item.options
        )
        if is_internal or not (name.startswith(_INTERNAL_PREFIXES) or name in _INTERNAL_NAMES):
            continue
        problems.warning(
            item.name,
            f"`{name}` is a name for internal types",
            hint="choose another: names that begin with `Dots` or `Skerry`, and those of "
            "descriptions of types, are taken",
        )


def check_key(part: FieldSyntax, type_: FieldType, problems: ProblemList) -> None:
    """Warn of a key of a type whose values are rarely equal or change their encoding."""
    reason = _UNSTABLE_KEYS.get(type_.kind)
    if reason is not None:
        problems.warning(
            part.name,
            f"key `{part.name.text}` is of type {type_.name}: {reason}",
            hint="make the key an integer, a string, a uuid or an enum",
        )


# -- documentation that is lost


def check_documentation(file: SyntaxFile, problems: ProblemList) -> None:
    """Warn of documentation that belongs to nothing, or probably to the wrong item."""
    for item in file.items:
        _warn_lost(_lost(item), problems)
        if isinstance(item, StructSyntax):
            _warn_astray(item.fields, problems)
        elif isinstance(item, EnumSyntax):
            _warn_astray(item.elements, problems)
    _warn_lost(file.closing, problems)


def _lost(item: Item) -> Iterable[Comment]:
    """The comments of an item at positions where documentation has no meaning."""
    yield from item.notes.inside
    if isinstance(item, (StructSyntax, EnumSyntax)):
        parts = item.fields if isinstance(item, StructSyntax) else item.elements
        for part in parts:
            yield from part.notes.inside
        yield from item.closing
    else:
        yield from item.notes.before
    yield from item.notes.after


def _warn_lost(comments: Iterable[Comment], problems: ProblemList) -> None:
    for comment in comments:
        if comment.is_documentation:
            problems.warning(
                comment,
                "this documentation does not belong to anything",
                hint="put it before a type, field or element, or after one on its line",
            )


def _warn_astray(parts: Sequence[FieldSyntax | ElementSyntax], problems: ProblemList) -> None:
    """Warn of a `//<` below a `//<`: it looks like its continuation, but documents what follows."""
    for part, following in pairwise(parts):
        after, before = part.notes.after, following.notes.before
        if not (after and before and after[-1].is_documentation):
            continue
        if before[0].text.startswith("//<") and before[0].line == after[-1].line + 1:
            problems.warning(
                before[0],
                f"this documents `{following.name.text}`, not `{part.name.text}`",
                hint=f"put long documentation before `{part.name.text}`, with `///`",
            )
