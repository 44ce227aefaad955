"""Syntax trees to model types. All rules of the type language are checked.

A type is built after the types that it uses. A type that could not be built is noted as broken, so
that the types that use it are not reported again.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from skerry import limits
from skerry.errors import Problem, SchemaCheckError, SchemaSyntaxError
from skerry.schema.language.parser import parse_partly
from skerry.schema.language.problems import ProblemList
from skerry.schema.language.syntax import EnumSyntax, FieldSyntax, StructSyntax, SyntaxFile
from skerry.schema.model import NamedType
from skerry.schema.rules import usage
from skerry.schema.rules.building import Builder
from skerry.schema.rules.typenames import BUILT_IN_NAMES, TypeNames

_NOTHING: Final[Mapping[str, NamedType]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Types that satisfy all rules."""

    types: tuple[NamedType, ...]
    """In the order of the files, and in each file in the order of declaration."""
    warnings: tuple[Problem, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict)
    """The position of each definition, as `file:line`."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """The package of each file that names one."""


def define(
    text: str,
    file: str = "<text>",
    known: Mapping[str, NamedType] = _NOTHING,
    *,
    is_internal: bool = False,
) -> Checked:
    """The types that `text` defines. Raises SchemaSyntaxError or SchemaCheckError for faults.

    With `is_internal`, names of internal types do not cause a warning.
    """
    tree, faults = parse_partly(text, file)
    return _Check([tree], known, faults, is_internal=is_internal).run()


def check(
    files: Sequence[SyntaxFile],
    known: Mapping[str, NamedType] = _NOTHING,
    faults: Sequence[Problem] = (),
) -> Checked:
    """The types of all files; they may use each other and those of `known`.

    A type in the files takes precedence over one of the same name in `known`; the two are not
    compared. `faults` are those of parsing the files. If there are any, the rest is checked too,
    and a SchemaSyntaxError reports all faults. Otherwise faults raise SchemaCheckError.
    """
    return _Check(files, known, faults).run()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Declared:
    file: str
    item: StructSyntax | EnumSyntax

    @property
    def origin(self) -> str:
        return f"{self.file}:{self.item.name.line}"


class _Check:
    def __init__(
        self,
        files: Sequence[SyntaxFile],
        known: Mapping[str, NamedType],
        faults: Sequence[Problem],
        *,
        is_internal: bool = False,
    ) -> None:
        self._files = files
        self._faults = faults
        self._is_internal = is_internal
        self._problems = ProblemList()
        self._declared: dict[str, _Declared] = {}
        self._names = TypeNames(known)

    def run(self) -> Checked:
        for file in self._files:
            self._declare(file)
        broken = frozenset().union(*(file.broken for file in self._files)) - self._declared.keys()
        self._names.declared = broken.union(self._declared)
        self._names.built.update(dict.fromkeys(broken))
        self._names.is_complete = not any(file.is_torn for file in self._files)
        for file in self._files:
            problems = self._problems.of(file.file)
            usage.check_imports(file, self._names, problems)
            usage.check_packages(file, problems)
            usage.check_documentation(file, problems)
            if not self._is_internal:
                usage.check_internal_names(file, problems)
        self._build_all()
        self._names.check_references()
        errors = self._in_order([*self._faults, *self._problems.errors])
        if errors:
            kind = SchemaSyntaxError if self._faults else SchemaCheckError
            raise kind(errors[: limits.PROBLEM_COUNT_MAX])
        built = (self._names.built[name] for name in self._declared)
        return Checked(
            types=tuple(type_ for type_ in built if type_ is not None),
            warnings=self._in_order(self._problems.warnings),
            origins={name: found.origin for name, found in self._declared.items()},
            packages={
                file.file: file.packages[0].name.text for file in self._files if file.packages
            },
        )

    def _in_order(self, problems: list[Problem]) -> tuple[Problem, ...]:
        order = {file.file: index for index, file in enumerate(self._files)}
        return tuple(sorted(problems, key=lambda p: (order[p.file], p.line, p.column)))

    def _declare(self, file: SyntaxFile) -> None:
        problems = self._problems.of(file.file)
        for item in file.types:
            name = item.name
            if name.text in BUILT_IN_NAMES:
                problems.error(name, f"`{name.text}` is the name of a built-in type")
                continue
            first = self._declared.setdefault(name.text, _Declared(file=file.file, item=item))
            if first.item is not item:
                problems.error(
                    name,
                    f"`{name.text}` is defined twice: first at {first.origin}",
                    hint="remove one of them, or give one another name",
                )

    def _build_all(self) -> None:
        uses = {
            name: used_names(found.item, self._declared) for name, found in self._declared.items()
        }
        order, cycles = sort_by_need(uses)
        for cycle in cycles:
            found = self._declared[cycle[0]]
            path = " -> ".join([*cycle, cycle[0]])
            self._problems.of(found.file).error(
                found.item.name,
                f"`{cycle[0]}` contains itself: {path}",
                hint=f"refer to it by its key, or with `instance_ref<{cycle[0]}>`",
            )
            self._names.built.update(dict.fromkeys(cycle))
        for name in order:
            if name not in self._names.built:
                found = self._declared[name]
                builder = Builder(self._names, self._problems.of(found.file))
                self._names.built[name] = builder.build(found.item)


def used_names(item: StructSyntax | EnumSyntax, names: Container[str]) -> list[str]:
    """Those of `names` that objects of `item` contain. The target of a reference is not one."""
    if isinstance(item, EnumSyntax):
        return []
    used = (_content(field) for field in item.fields if not _is_removed(field))
    return [name for name in used if name in names]


def sort_by_need(uses: Mapping[str, Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """The names in an order in which each follows those it uses, and the first cycles.

    It uses a stack of its own: a chain of definitions may be longer than Python's recursion limit.
    """
    order: list[str] = []
    cycles: list[list[str]] = []
    done: set[str] = set()
    for start in uses:
        if start in done:
            continue
        path = {start: iter(uses[start])}
        while path:
            name, rest = next(reversed(path.items()))
            used = next((found for found in rest if found not in done), None)
            if used is None:
                path.popitem()  # `del` would leave a gap that each next lookup must skip
                done.add(name)
                order.append(name)
            elif used in path and len(cycles) >= limits.PROBLEM_COUNT_MAX:
                # Thousands of definitions can have thousands of cycles of that length, which would
                # fill the memory. More than this many are not reported anyway.
                continue
            elif used in path:
                names = list(path)
                cycles.append(names[names.index(used) :])
            else:
                path[used] = iter(uses[used])
    return order, cycles


def _content(field: FieldSyntax) -> str:
    type_ = field.type
    while type_.name.text == "vector" and type_.argument is not None:
        type_ = type_.argument
    return type_.name.text


def _is_removed(field: FieldSyntax) -> bool:
    return any(option.name.text == "removed" and option.value is True for option in field.options)
