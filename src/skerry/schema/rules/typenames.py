"""Resolves names of types: built in, defined in the files, or known already."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Final

from skerry.schema.language.problems import ProblemList
from skerry.schema.language.syntax import TypeSyntax, Word
from skerry.schema.model import (
    SCALAR_KINDS,
    FieldType,
    NamedType,
    RefType,
    ScalarType,
    StructType,
    VectorType,
)

BUILT_IN_NAMES: Final = frozenset(
    {*SCALAR_KINDS, "time_point", "float128", "vector", "instance_ref"}
)
"""Names that a definition cannot have."""

_FOREIGN_NAMES_TEXT: Final = """\
array: vector<T>, blob: bytes, boolean: bool, byte: uint8, char: int8, date: timepoint,
datetime: timepoint, double: float64, float: float32 or float64, guid: uuid, half: float16,
int: int32, integer: int32, list: vector<T>, long: int64, short: int16, str: string, text: string,
time: timepoint, timestamp: timepoint, uint: uint32"""
_FOREIGN_NAMES: Final = dict(
    pair.split(": ", 1) for pair in _FOREIGN_NAMES_TEXT.replace("\n", " ").split(", ")
)
"""Names of types in other languages, with the corresponding type."""


class TypeNames:
    """All names that a field may use as its type."""

    def __init__(self, known: Mapping[str, NamedType]) -> None:
        self._known = known
        self._references: list[tuple[ProblemList, Word]] = []
        self.declared: frozenset[str] = frozenset()
        """The names that the files define."""
        self.built: dict[str, NamedType | None] = {}
        """The types of these names; None for those that cannot be used."""
        self.is_complete = True
        """Whether unknown names are reported. If not, text that could not be parsed may define
        them."""

    def has(self, name: str) -> bool:
        """Whether a definition of that name exists anywhere."""
        return name in self.declared or name in self._known

    def guess(self, name: str, problems: ProblemList, *, with_built_in: bool = True) -> str | None:
        """The known name that is most like an unknown one; None if there is none."""
        built_in = SCALAR_KINDS if with_built_in else ()
        return problems.guess(name, chain(built_in, self.declared, self._known))

    def resolve(self, syntax: TypeSyntax, problems: ProblemList) -> FieldType | None:
        """The type of a field; None if it is unknown or broken, which is then reported."""
        name = syntax.name.text
        if name == "vector":
            return self._vector(syntax, problems)
        if name == "instance_ref":
            if syntax.argument is None:
                return RefType()
            self._references.append((problems, syntax.argument.name))
            return RefType(syntax.argument.name.text)
        if kind := SCALAR_KINDS.get("timepoint" if name == "time_point" else name):
            return ScalarType(kind)
        if name in self.declared:
            # Absent only in a cycle, which is reported already.
            return self.built.get(name)
        if name in self._known:
            return self._known[name]
        self._report_unknown(syntax.name, problems)
        return None

    def check_references(self) -> None:
        """Report references without a valid target.

        Call it after all types are built: a type may refer to itself.
        """
        for problems, word in self._references:
            target = self.built.get(word.text, self._known.get(word.text))
            if not self.has(word.text):
                self._report_no_target(word, problems)
            elif target is not None and not isinstance(target, StructType):
                problems.error(word, f"a reference cannot refer to `{word.text}`: it is an enum")
            elif target is not None and target.flags.substruct_only:
                problems.error(
                    word, f"a reference cannot refer to `{word.text}`: it exists only inside others"
                )
            elif target is not None and not target.flags.cached:
                problems.warning(
                    word, f"a reference to `{word.text}` finds nothing: it is not cached"
                )

    def _vector(self, syntax: TypeSyntax, problems: ProblemList) -> VectorType | None:
        assert syntax.argument is not None, "the parser asks for it"
        if syntax.argument.name.text == "vector":
            problems.error(
                syntax.argument.name,
                f"a vector cannot hold vectors: `{syntax.text}`",
                hint="make the inner one a field of a struct, and use a vector of that struct",
            )
            return None
        element = self.resolve(syntax.argument, problems)
        return None if element is None else VectorType(element)

    def _report_unknown(self, word: Word, problems: ProblemList) -> None:
        name = word.text
        if name == "float128":
            problems.error(
                word,
                "`float128` is reserved: nothing can encode it",
                hint="use `float64`, or `bytes` with a format of your own",
            )
            return
        foreign = _FOREIGN_NAMES.get(name.lower())
        if not (foreign or self.is_complete):
            return
        guess = foreign or self.guess(name, problems)
        problems.error(
            word,
            f"type `{name}` is unknown",
            hint=f"did you mean `{guess}`?" if guess else "define it, or import it",
        )

    def _report_no_target(self, word: Word, problems: ProblemList) -> None:
        name = word.text
        if name in BUILT_IN_NAMES:
            problems.error(word, f"a reference cannot refer to `{name}`: it is a built-in type")
            return
        guess = self.guess(name, problems, with_built_in=False)
        problems.warning(
            word,
            f"type `{name}` of the reference is unknown",
            hint=f"did you mean `{guess}`?" if guess else None,
        )
