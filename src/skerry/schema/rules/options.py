"""The meaning of the options in brackets, for structs, enums and fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from skerry.schema.language.problems import ProblemList
from skerry.schema.language.syntax import OptionSyntax, Word
from skerry.schema.model import Flags, Option, Scope

STRUCT_OPTIONS: Final = (
    "cached",
    "cleanup",
    "persistent",
    "internal",
    "local",
    "substruct_only",
    "scope",
    "deprecated",
)
"""Options of a struct that have a meaning, in the order in which they are written."""

FIELD_OPTIONS: Final = ("key", "deprecated", "ctor", "removed", "default")
"""Options of a field that have a meaning, in the order in which they are written."""

ENUM_OPTIONS: Final = ("deprecated",)
"""Known options of enums. They are kept like unknown ones: the model gives them no meaning."""

_TEXT_OPTIONS: Final = frozenset({"scope", "default"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionSet:
    """The options of one item: known ones, and the others."""

    flags: dict[str, bool]
    texts: dict[str, str]
    words: dict[str, Word]
    """The position of each known option, or of its value if one is written."""
    others: tuple[Option, ...]
    """Unknown options, as written."""
    written: tuple[Option, ...]

    def flag(self, name: str) -> bool:
        """Whether a flag that is off by default is on."""
        return self.flags.get(name, False)


def read_options(
    options: Sequence[OptionSyntax], known: Sequence[str], problems: ProblemList
) -> OptionSet:
    """Sort the options of one item; report wrong values, repeats and likely misspellings."""
    flags: dict[str, bool] = {}
    texts: dict[str, str] = {}
    words: dict[str, Word] = {}
    others: list[Option] = []
    written: list[Option] = []
    seen: set[str] = set()
    for option in options:
        name = option.name.text
        if name in seen:
            problems.error(option.name, f"option `{name}` is given twice")
            continue
        seen.add(name)
        written.append((name, option.value))
        if name not in known:
            _report_unknown(option.name, known, problems)
            others.append((name, option.value))
            continue
        words[name] = option.written or option.name
        if name in _TEXT_OPTIONS:
            if isinstance(option.value, str):
                texts[name] = option.value
            else:
                problems.error(
                    words[name], f"option `{name}` needs a text", hint=f'write `{name}="..."`'
                )
        elif isinstance(option.value, bool):
            flags[name] = option.value
        else:
            problems.error(
                words[name],
                f"option `{name}` is true or false, not {words[name].text}",
                hint=f"write `{name}`, `{name}=true` or `{name}=false`",
            )
    return OptionSet(
        flags=flags, texts=texts, words=words, others=tuple(others), written=tuple(written)
    )


def struct_options(
    options: OptionSet, name: str, problems: ProblemList
) -> tuple[Flags, Scope | None]:
    """Flags and scope of a struct; reports options that have no effect."""
    flags = Flags(
        cached=options.flags.get("cached", True),
        internal=options.flag("internal"),
        persistent=options.flag("persistent"),
        cleanup=options.flag("cleanup"),
        local=options.flag("local"),
        substruct_only=options.flag("substruct_only"),
    )
    scope = _scope(options, problems)
    for option, reason in _without_effect(flags, scope):
        if option in options.words:
            problems.warning(
                options.words[option],
                f"option `{option}` has no effect on struct `{name}`: {reason}",
            )
    return flags, scope


def _scope(options: OptionSet, problems: ProblemList) -> Scope | None:
    text = options.texts.get("scope")
    if text is None:
        return None
    names = {scope.name.lower(): scope for scope in Scope}
    if text in names:
        return names[text]
    guess = problems.guess(text, names)
    problems.error(
        options.words["scope"],
        f'scope "{text}" is not one of program, server, site and global',
        hint=f'did you mean `scope="{guess}"`?' if guess else None,
    )
    return None


def _without_effect(flags: Flags, scope: Scope | None) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    if flags.substruct_only:
        reason = "its objects exist only inside others"
        found += [("cleanup", reason)] * flags.cleanup
        found += [("persistent", reason)] * flags.persistent
        found += [("scope", reason)] * (scope is not None)
    elif not flags.cached:
        reason = "its objects are not cached"
        found += [("cleanup", reason)] * flags.cleanup
        found += [("persistent", reason)] * flags.persistent
    if flags.local and scope in {Scope.SITE, Scope.GLOBAL} and not flags.substruct_only:
        found.append(("local", f"scope {scope.name.lower()} distributes its objects further"))
    return found


def _report_unknown(name: Word, known: Sequence[str], problems: ProblemList) -> None:
    """Warn of an unknown option if it is likely misspelt; others are kept for other programs."""
    guess = problems.guess(name.text, known)
    if guess is not None:
        hint = f"did you mean `{guess}`?"
    elif name.text in STRUCT_OPTIONS:
        hint = f"`{name.text}` is an option of structs"
    elif name.text in FIELD_OPTIONS:
        hint = f"`{name.text}` is an option of fields"
    else:
        return
    problems.warning(name, f"option `{name.text}` is unknown here and ignored", hint=hint)
