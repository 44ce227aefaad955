"""The standard layout of type files.

It has four blanks of indent, one field or element per line, an empty line between definitions, and
aligned comments after neighbouring lines. Comments and single empty lines are kept. Formatting
twice gives the same text as formatting once.

    1. A comment inside an item moves after it, or before it if it does not fit on the line.
    2. Documentation before an item is written `///`, after an item `//<`.
    3. Documentation that belongs to nothing must not become that of an item by being moved: it
       becomes an ordinary comment.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from skerry.schema.language.parser import parse
from skerry.schema.language.syntax import (
    Comment,
    ElementSyntax,
    EnumSyntax,
    FieldSyntax,
    ImportSyntax,
    Item,
    Notes,
    OptionSyntax,
    PackageSyntax,
    StructSyntax,
    SyntaxFile,
)

_INDENT: Final = "    "


def format_text(text: str, file: str = "<text>") -> str:
    """`text` in the standard layout. Raises SchemaSyntaxError if it cannot be parsed."""
    return format_tree(parse(text, file))


def format_tree(tree: SyntaxFile) -> str:
    rows: list[str] = []
    previous: Item | None = None
    for item in tree.items:
        lines = _item_lines(item)
        has_gap = (item.notes.before or (item.notes,))[0].blank_before
        if rows and (_is_definition(item) or _is_definition(previous) or has_gap):
            rows.append("")
        rows += lines
        previous = item
    rows += _comment_lines(tree.closing, "", is_start=not rows)
    return "".join(f"{row}\n" for row in rows)


# -- items


def _is_definition(item: Item | None) -> bool:
    return isinstance(item, (StructSyntax, EnumSyntax))


def _item_lines(item: Item) -> list[str]:
    if isinstance(item, ImportSyntax):
        return _lay_out([_Line.of(f"import {item.name.text}", item.notes)], "")
    if isinstance(item, PackageSyntax):
        return _lay_out([_Line.of(f"package {item.name.text}", item.notes)], "")
    if isinstance(item, StructSyntax):
        parts = [_Line.of(_field_code(field), field.notes) for field in item.fields]
        return _definition_lines("struct", item, parts)
    last = len(item.elements) - 1
    parts = [
        _Line.of(_element_code(element) + ("," if index < last else ""), element.notes)
        for index, element in enumerate(item.elements)
    ]
    return _definition_lines("enum", item, parts)


def _definition_lines(
    keyword: str, item: StructSyntax | EnumSyntax, parts: Sequence[_Line]
) -> list[str]:
    options = _options_code(item.options)
    head = _Line.of(
        f"{keyword} {item.name.text} {options}{{",
        Notes(
            before=item.notes.before,
            inside=item.notes.inside,
            after=item.opening,
            blank_before=item.notes.blank_before,
        ),
    )
    foot = _Line.of("}", Notes(after=item.notes.after))
    return [
        *_lay_out([head], ""),
        *_lay_out(parts, _INDENT),
        *_comment_lines(item.closing, _INDENT, is_start=False),
        *_lay_out([foot], ""),
    ]


def _field_code(field: FieldSyntax) -> str:
    options = _options_code(field.options)
    return f"{int(field.tag.text)}: {options}{field.type.text} {field.name.text};"


def _element_code(element: ElementSyntax) -> str:
    value = "" if element.value is None else f" = {int(element.value.text)}"
    return f"{int(element.tag.text)}: {element.name.text}{value}"


def _options_code(options: Iterable[OptionSyntax]) -> str:
    written = ", ".join(_option_code(option) for option in options)
    return f"[{written}] " if written else ""


def _option_code(option: OptionSyntax) -> str:
    if option.value is True:
        return option.name.text
    if option.value is False:
        return f"{option.name.text}=false"
    assert option.written is not None, "a text was written somewhere"
    return f"{option.name.text}={option.written.text}"


# -- lines and their comments


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of code, the comments before it, and those after it."""

    code: str
    before: tuple[tuple[str, bool], ...]
    """Each with whether an empty line precedes it."""
    after: str
    blank_before: bool

    @classmethod
    def of(cls, code: str, notes: Notes) -> _Line:
        before = [(_text(c, "///"), c.blank_before) for c in notes.before]
        behind = [(comment, True) for comment in notes.inside]
        behind += [(comment, False) for comment in notes.after]
        stay = len(behind)
        # Only the last comment of a line may run to its end or over several lines.
        while stay > 0 and (stay == len(behind) or behind[stay - 1][0].fits_inside):
            stay -= 1
        moved, kept = behind[:stay], behind[stay:]
        before += [(_text(comment, "//" if lost else "///"), False) for comment, lost in moved]
        after = " ".join(_text(comment, "//" if lost else "//<") for comment, lost in kept)
        return cls(code, tuple(before), after, notes.blank_before)

    @property
    def starts_group(self) -> bool:
        return bool(self.before) or self.blank_before


def _lay_out(lines: Sequence[_Line], indent: str) -> list[str]:
    rows: list[str] = []
    for group in _groups(lines):
        width = max((len(line.code) for line in group if line.after), default=0)
        for line in group:
            for text, blank_before in line.before:
                if blank_before and rows:
                    rows.append("")
                rows.append(indent + text)
            if line.blank_before and rows:
                rows.append("")
            code = f"{line.code:<{width}} {line.after}" if line.after else line.code
            rows.append(f"{indent}{code}")
    return rows


def _groups(lines: Sequence[_Line]) -> list[list[_Line]]:
    groups: list[list[_Line]] = []
    for line in lines:
        if line.starts_group or not groups:
            groups.append([])
        groups[-1].append(line)
    return groups


def _comment_lines(comments: Sequence[Comment], indent: str, *, is_start: bool) -> list[str]:
    rows: list[str] = []
    for comment in comments:
        if comment.blank_before and not (is_start and not rows):
            rows.append("")
        rows.append(indent + _text(comment, "///"))
    return rows


def _text(comment: Comment, mark: str) -> str:
    """The text of a comment; the mark is for documentation."""
    if comment.is_documentation:
        return f"{mark} {comment.documentation}".rstrip()
    # The lines of a block comment keep their indent: they may be a drawing.
    return "\n".join(line.rstrip() for line in comment.text.split("\n"))
