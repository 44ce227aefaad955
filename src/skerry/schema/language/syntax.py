"""The syntax tree of one file of the type language, with the position of each word.

It keeps everything in the text, comments included, because the formatter writes it again.
`skerry.schema.check` decides what the text means.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A piece of source and its position."""

    text: str
    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """A comment as written, with `//` or `/* */`."""

    text: str
    line: int
    column: int
    last_line: int
    blank_before: bool = False

    @property
    def is_block(self) -> bool:
        """Whether it is a `/* */` comment, which does not end with its line."""
        return self.text.startswith("/*")

    @property
    def fits_inside(self) -> bool:
        """Whether code may follow it on its line."""
        return self.is_block and self.line == self.last_line

    @property
    def is_torn(self) -> bool:
        """Whether it is a block comment without `*/`."""
        return self.is_block and (len(self.text) < 4 or not self.text.endswith("*/"))

    @property
    def is_documentation(self) -> bool:
        """Whether it is documentation: `///` or `//<`. Four slashes and more are a ruler."""
        return self.text.startswith(("///", "//<")) and not self.text.startswith("////")

    @property
    def documentation(self) -> str:
        """The text of a documentation comment, without marks."""
        text = self.text.removeprefix("///").removeprefix("//").removeprefix("<")
        return text.removeprefix(" ").rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """The comments of an item."""

    before: tuple[Comment, ...] = ()
    inside: tuple[Comment, ...] = ()
    """Between its first and its last word; documentation has no meaning there."""
    after: tuple[Comment, ...] = ()
    """After it on the same line."""
    blank_before: bool = False
    """Whether an empty line precedes the item itself, after the comments before it."""

    @property
    def documentation(self) -> str:
        """The documentation comments before the item and after it on its line."""
        return join_documentation(
            note.documentation for note in (*self.before, *self.after) if note.is_documentation
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeSyntax:
    """A type as written: a name, with an argument for `vector` and `instance_ref`."""

    name: Word
    argument: TypeSyntax | None = None

    @property
    def text(self) -> str:
        """The type in its standard form."""
        name = "timepoint" if self.name.text == "time_point" else self.name.text
        return name if self.argument is None else f"{name}<{self.argument.text}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionSyntax:
    name: Word
    value: str | bool
    written: Word | None = None
    """The value as written, with its quotes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSyntax:
    tag: Word
    type: TypeSyntax
    name: Word
    options: tuple[OptionSyntax, ...] = ()
    notes: Notes = Notes()


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementSyntax:
    tag: Word
    name: Word
    value: Word | None = None
    notes: Notes = Notes()


@dataclass(frozen=True, slots=True)
class StructSyntax:
    name: Word
    fields: tuple[FieldSyntax, ...]
    options: tuple[OptionSyntax, ...] = ()
    notes: Notes = Notes()
    opening: tuple[Comment, ...] = ()
    """Comments after the opening brace, on its line."""
    closing: tuple[Comment, ...] = ()
    """Comments after the last field, on lines of their own."""


@dataclass(frozen=True, slots=True)
class EnumSyntax:
    name: Word
    elements: tuple[ElementSyntax, ...]
    options: tuple[OptionSyntax, ...] = ()
    notes: Notes = Notes()
    opening: tuple[Comment, ...] = ()
    closing: tuple[Comment, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSyntax:
    """The import of a type that another file defines."""

    name: Word
    notes: Notes = Notes()


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageSyntax:
    """The package of the types in the file, for generated code."""

    name: Word
    notes: Notes = Notes()


Item: TypeAlias = StructSyntax | EnumSyntax | ImportSyntax | PackageSyntax


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntaxFile:
    file: str
    items: tuple[Item, ...]
    closing: tuple[Comment, ...] = ()
    """Comments after the last item."""
    broken: frozenset[str] = frozenset()
    """The names of definitions that could not be parsed and are not among the items."""
    is_torn: bool = False
    """Whether the file may have definitions whose names could not be parsed."""

    @property
    def types(self) -> tuple[StructSyntax | EnumSyntax, ...]:
        return tuple(i for i in self.items if isinstance(i, (StructSyntax, EnumSyntax)))

    @property
    def imports(self) -> tuple[ImportSyntax, ...]:
        return tuple(item for item in self.items if isinstance(item, ImportSyntax))

    @property
    def packages(self) -> tuple[PackageSyntax, ...]:
        """The packages; more than one is an error."""
        return tuple(item for item in self.items if isinstance(item, PackageSyntax))


def join_documentation(lines: Iterable[str]) -> str:
    """Join lines of documentation, without empty lines at either end and trailing blanks."""
    return "\n".join(line.rstrip() for line in lines).strip("\n")
