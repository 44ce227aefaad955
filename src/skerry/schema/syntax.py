"""The syntax tree of one file of the type language: what is written, and where.

It keeps everything a person wrote, comments included, because the formatter must give it back.
What the text means is the business of `skerry.schema.check`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

__all__ = [
    "Comment",
    "ElementSyntax",
    "EnumSyntax",
    "FieldSyntax",
    "ImportSyntax",
    "Item",
    "Notes",
    "OptionSyntax",
    "PackageSyntax",
    "StructSyntax",
    "SyntaxFile",
    "TypeSyntax",
    "Word",
    "join_documentation",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A piece of source and where it stands."""

    text: str
    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """A comment as written, with its marks."""

    text: str
    line: int
    column: int
    last_line: int
    blank_before: bool = False

    @property
    def is_block(self) -> bool:
        """Whether it ends by itself (`/* */`) and not with its line."""
        return self.text.startswith("/*")

    @property
    def is_torn(self) -> bool:
        """Whether it is a block without its end."""
        return self.is_block and (len(self.text) < 4 or not self.text.endswith("*/"))

    @property
    def is_documentation(self) -> bool:
        """Whether it is kept as documentation. A row of slashes is a line across the page."""
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
    """Between its first and its last word, where no documentation belongs."""
    after: tuple[Comment, ...] = ()
    """Behind it on the same line."""
    blank_before: bool = False
    """An empty line precedes the item itself (behind the comments before it)."""

    @property
    def documentation(self) -> str:
        """The documentation comments before the item and behind it on its line."""
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
        """The type in its usual spelling."""
        name = "timepoint" if self.name.text == "time_point" else self.name.text
        return name if self.argument is None else f"{name}<{self.argument.text}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionSyntax:
    """An option in brackets. One without a value is true."""

    name: Word
    value: str | bool
    written: Word | None = None
    """The value as written, with its quotes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSyntax:
    """A field of a struct."""

    tag: Word
    type: TypeSyntax
    name: Word
    options: tuple[OptionSyntax, ...] = ()
    notes: Notes = Notes()


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementSyntax:
    """An element of an enum."""

    tag: Word
    name: Word
    value: Word | None = None
    notes: Notes = Notes()


@dataclass(frozen=True, slots=True, kw_only=True)
class StructSyntax:
    """A struct."""

    name: Word
    fields: tuple[FieldSyntax, ...]
    options: tuple[OptionSyntax, ...] = ()
    notes: Notes = Notes()
    opening: tuple[Comment, ...] = ()
    """Comments behind the opening brace, on its line."""
    closing: tuple[Comment, ...] = ()
    """Comments behind the last field, on lines of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnumSyntax:
    """An enum."""

    name: Word
    elements: tuple[ElementSyntax, ...]
    options: tuple[OptionSyntax, ...] = ()
    notes: Notes = Notes()
    opening: tuple[Comment, ...] = ()
    closing: tuple[Comment, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSyntax:
    """The name of a type that stands in another file."""

    name: Word
    notes: Notes = Notes()


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageSyntax:
    """The package the types of the file belong to, for generated code."""

    name: Word
    notes: Notes = Notes()


Item: TypeAlias = StructSyntax | EnumSyntax | ImportSyntax | PackageSyntax


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntaxFile:
    """One parsed file."""

    file: str
    items: tuple[Item, ...]
    closing: tuple[Comment, ...] = ()
    """Comments behind the last item."""
    broken: frozenset[str] = frozenset()
    """The names of definitions that could not be read: they are there, but not among the items."""
    is_torn: bool = False
    """Whether there may be definitions in the file whose very names could not be read."""

    @property
    def types(self) -> tuple[StructSyntax | EnumSyntax, ...]:
        """The definitions, in order."""
        return tuple(i for i in self.items if isinstance(i, (StructSyntax, EnumSyntax)))

    @property
    def imports(self) -> tuple[ImportSyntax, ...]:
        """The imports, in order."""
        return tuple(item for item in self.items if isinstance(item, ImportSyntax))

    @property
    def packages(self) -> tuple[PackageSyntax, ...]:
        """The packages; more than one is a mistake."""
        return tuple(item for item in self.items if isinstance(item, PackageSyntax))


def join_documentation(lines: Iterable[str]) -> str:
    """Documentation from its lines: no empty ones at either end, no blanks at the end of one."""
    return "\n".join(line.rstrip() for line in lines).strip("\n")
