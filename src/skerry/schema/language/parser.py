"""Tokens to syntax tree, by recursive descent.

A broken item is reported and skipped, and parsing continues with the next one, so that one run
reports several faults. Words such as `struct` are reserved only where the grammar expects them: a
field may be called `struct` or `vector`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from skerry import limits
from skerry.errors import Problem, SchemaSyntaxError
from skerry.schema.language.cursor import KEYWORDS, Cursor, GivenUpError, word
from skerry.schema.language.lexer import Token, scan, unquote
from skerry.schema.language.problems import ProblemList
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
    TypeSyntax,
    Word,
)

_Part = TypeVar("_Part", FieldSyntax, ElementSyntax)


def parse(text: str, file: str = "<text>") -> SyntaxFile:
    """The syntax tree of `text`. Raises SchemaSyntaxError with all faults."""
    tree, problems = parse_partly(text, file)
    if problems:
        raise SchemaSyntaxError(problems)
    return tree


def parse_partly(text: str, file: str = "<text>") -> tuple[SyntaxFile, tuple[Problem, ...]]:
    """The syntax tree of the valid definitions in `text`, and all faults.

    Definitions with a fault are left out; the tree has their names in `broken`.
    """
    problems = ProblemList().of(file)
    tokens = scan(text, problems)
    tree = _Parser(Cursor(tokens, problems), problems).file(file)
    if problems.errors:
        tree = dataclasses.replace(
            tree,
            broken=_declared_names(tokens) - {item.name.text for item in tree.types},
            is_torn=_is_torn(tokens, problems),
        )
    return tree, tuple(sorted(problems.errors, key=lambda p: (p.line, p.column)))


_FIELD_HINT: Final = "a field reads `1: [key] uint32 id;`"
_ELEMENT_HINT: Final = "an element reads `1: name` or `1: name = 10`"
_OPTIONS_HINT: Final = "options belong before the type: `1: [key] uint32 id;`"


class _Parser:
    def __init__(self, cursor: Cursor, problems: ProblemList) -> None:
        self._cursor = cursor
        self._problems = problems

    def file(self, file: str) -> SyntaxFile:
        items: list[Item] = []
        cursor = self._cursor
        while not (cursor.is_at_end or self._problems.is_full):
            first, fault_count = cursor.token, len(self._problems.errors)
            try:
                item = self._item()
            except GivenUpError:
                cursor.skip_definition()
                continue
            is_broken = len(self._problems.errors) > fault_count or cursor.has_scan_fault(first)
            if not (is_broken and isinstance(item, (StructSyntax, EnumSyntax))):
                items.append(item)
        return SyntaxFile(file=file, items=tuple(items), closing=cursor.take_pending())

    # -- top level

    def _item(self) -> Item:
        cursor = self._cursor
        token = cursor.token
        notes = cursor.begin()
        if token.kind != "name" or token.text not in KEYWORDS:
            raise self._no_item(token)
        cursor.take()
        if token.text in {"struct", "enum"}:
            return self._definition(token, notes)
        if token.text == "import":
            name = cursor.expect_name("the name of a type", hint="an import reads `import Vessel`")
            return ImportSyntax(name=name, notes=self._end_line(notes, "import"))
        name = self._dotted_name()
        return PackageSyntax(name=name, notes=self._end_line(notes, "package"))

    def _no_item(self, token: Token) -> GivenUpError:
        cursor = self._cursor
        if token.text == ";" and cursor.last.text == "}":
            failure = cursor.fail("`;` cannot follow a closing `}`", hint="remove it")
            cursor.take()
            return failure
        if token.text == "}":
            failure = cursor.fail("this `}` closes nothing")
            cursor.take()
            return failure
        guess = self._problems.guess(token.text, KEYWORDS) if token.kind == "name" else None
        return cursor.fail(
            f"expected `struct`, `enum`, `import` or `package`, found {cursor.found}",
            hint=f"did you mean `{guess}`?" if guess else None,
        )

    def _dotted_name(self) -> Word:
        cursor = self._cursor
        first = cursor.expect_name("the name of a package", hint="for example `package fleet.nav`")
        parts = [first.text]
        while cursor.take_if("."):
            parts.append(cursor.expect_name("a name after the dot").text)
        return dataclasses.replace(first, text=".".join(parts))

    def _end_line(self, notes: Notes, what: str) -> Notes:
        cursor = self._cursor
        if cursor.is_at(";"):
            cursor.report(f"`;` cannot follow `{what}`", cursor.token, hint="remove it")
            cursor.take()
        return dataclasses.replace(notes, inside=cursor.take_inside(), after=cursor.take_after())

    def _definition(self, keyword: Token, notes: Notes) -> StructSyntax | EnumSyntax:
        cursor, what = self._cursor, keyword.text
        name = cursor.expect_name(f"the name of the {what}")
        options = self._options()
        base = "types have no base: make it a field" if cursor.is_at(":") else None
        cursor.expect("{", f"after `{what} {name.text}`", hint=base)
        opening = cursor.take_after(plain_only=True)
        inside = cursor.take_inside()
        is_struct = what == "struct"
        fields = self._body(keyword, name, self._field, ends=";") if is_struct else ()
        elements = () if is_struct else self._body(keyword, name, self._element, ends=",;")
        missing = None if fields or elements else "fields" if is_struct else "elements"
        closing, after = self._close(keyword, name, missing)
        notes = dataclasses.replace(notes, inside=inside, after=after)
        item = StructSyntax(name, fields, options, notes, opening, closing)
        return item if is_struct else EnumSyntax(name, elements, options, notes, opening, closing)

    def _body(
        self, keyword: Token, name: Word, read: Callable[[], _Part], *, ends: str
    ) -> tuple[_Part, ...]:
        cursor = self._cursor
        parts: list[_Part] = []
        while not (cursor.is_at_end or cursor.is_at("}") or self._problems.is_full):
            if self._is_at_definition():
                if cursor.token.is_first and cursor.token.column <= keyword.column:
                    break
                cursor.report(
                    f"a type cannot be defined inside `{name.text}`",
                    cursor.token,
                    hint="define it before, and name it as the type of a field",
                )
                cursor.take()
                cursor.skip_definition()
                continue
            try:
                parts.append(read())
            except GivenUpError:
                cursor.skip_item(ends)
                if cursor.is_at_keyword and not self._is_at_definition():
                    break
        return tuple(parts)

    def _is_at_definition(self) -> bool:
        cursor = self._cursor
        return (
            cursor.token.kind == "name"
            and cursor.token.text in {"struct", "enum"}
            and cursor.ahead(1).kind == "name"
            and cursor.ahead(2).text in {"{", "["}
        )

    def _close(
        self, keyword: Token, name: Word, missing: str | None
    ) -> tuple[tuple[Comment, ...], tuple[Comment, ...]]:
        cursor = self._cursor
        closing = cursor.take_pending()
        if any(comment.is_torn for comment in cursor.token.comments):
            return closing, ()  # the brace is in the comment that is not closed
        if not cursor.is_at("}"):
            where = f"{keyword.text} `{name.text}` of line {name.line} is still open"
            cursor.report(f"`}}` is missing: {where}", cursor.behind_last)
            return closing, ()
        brace = cursor.take()
        # A body whose parts were all reported as broken is not reported as empty.
        if missing and not any(p.line >= name.line for p in self._problems.errors):
            cursor.report(f"{keyword.text} `{name.text}` has no {missing}", brace)
        cursor.take_inside()
        return closing, cursor.take_after()

    # -- fields and elements

    def _field(self) -> FieldSyntax:
        cursor = self._cursor
        notes = cursor.begin()
        tag = cursor.expect_number("the tag of a field", hint=_FIELD_HINT)
        cursor.expect(":", f"after tag {tag.text}", hint=_FIELD_HINT)
        options = self._options()
        type_ = self._type()
        if cursor.is_at("["):
            raise self._misplaced_options(f"type `{type_.text}`", type_.text)
        name = cursor.expect_name(f"a name after type `{type_.text}`", hint=_FIELD_HINT)
        self._end_field(name)
        return FieldSyntax(
            tag=tag,
            type=type_,
            name=name,
            options=options,
            notes=dataclasses.replace(
                notes, inside=cursor.take_inside(), after=cursor.take_after()
            ),
        )

    def _end_field(self, name: Word) -> None:
        cursor = self._cursor
        if cursor.take_if(";"):
            return
        if cursor.is_at(","):
            cursor.report(f"field `{name.text}` ends with `;`, not with `,`", cursor.token)
            cursor.take()
            return
        if cursor.is_at("["):
            raise self._misplaced_options(f"field `{name.text}`", "float64")
        if cursor.is_at("="):
            raise cursor.fail(
                f"field `{name.text}` cannot be given a value here",
                hint='a default is an option: `1: [default="5"] uint32 count;`',
            )
        if cursor.token.is_first or cursor.is_at("}"):
            cursor.report(f"`;` is missing after field `{name.text}`", cursor.behind_last)
            return
        raise cursor.fail(f"expected `;` after field `{name.text}`, found {cursor.found}")

    def _misplaced_options(self, where: str, type_name: str) -> GivenUpError:
        cursor = self._cursor
        is_array = cursor.ahead(1).text == "]" or cursor.ahead(1).kind == "number"
        if is_array:
            return cursor.fail(
                "there are no arrays", hint=f"a list of values is a `vector<{type_name}>`"
            )
        return cursor.fail(f"options cannot follow {where}", hint=_OPTIONS_HINT)

    def _element(self) -> ElementSyntax:
        cursor = self._cursor
        notes = cursor.begin()
        tag = cursor.expect_number("the tag of an element", hint=_ELEMENT_HINT)
        cursor.expect(":", f"after tag {tag.text}", hint=_ELEMENT_HINT)
        if cursor.is_at("["):
            raise cursor.fail("elements of an enum have no options", hint=_ELEMENT_HINT)
        name = cursor.expect_name(f"a name for element {tag.text}", hint=_ELEMENT_HINT)
        value = None
        if cursor.take_if("="):
            value = cursor.expect_number(f"a whole number as value of `{name.text}`")
        after = cursor.take_after()
        if cursor.is_at(";"):
            cursor.report(f"element `{name.text}` ends with `,`, not with `;`", cursor.token)
            cursor.take()
        elif cursor.take_if(","):
            after += cursor.take_after()
        elif not (cursor.is_at("}") or cursor.is_at_end or cursor.is_at_number):
            raise cursor.fail(f"expected `,` after `{name.text}`, found {cursor.found}")
        return ElementSyntax(
            tag=tag,
            name=name,
            value=value,
            notes=dataclasses.replace(notes, inside=cursor.take_inside(), after=after),
        )

    def _type(self) -> TypeSyntax:
        """A type. Nested vectors are parsed in a loop, so that they cannot overflow the stack."""
        cursor = self._cursor
        vectors: list[Word] = []
        while cursor.token.text == "vector" and cursor.token.kind == "name":
            if len(vectors) >= limits.TYPE_DEPTH_MAX:
                raise cursor.fail(f"over {limits.TYPE_DEPTH_MAX} vectors in each other")
            vectors.append(word(cursor.take()))
            cursor.expect("<", "after `vector`", hint="name its elements: `vector<float64>`")
        type_ = self._plain_type()
        for name in reversed(vectors):
            cursor.expect(">", f"after `vector<{type_.text}`")
            type_ = TypeSyntax(name=name, argument=type_)
        return type_

    def _plain_type(self) -> TypeSyntax:
        cursor = self._cursor
        name = cursor.expect_name("a type")
        if not cursor.is_at("<"):
            return TypeSyntax(name=name)
        if name.text != "instance_ref":
            raise cursor.fail(
                f"`{name.text}` takes no `<...>`: only `vector` and `instance_ref` do"
            )
        cursor.take()
        target = cursor.expect_name("the target type of a reference")
        cursor.expect(">", f"after `instance_ref<{target.text}`")
        return TypeSyntax(name=name, argument=TypeSyntax(name=target))

    # -- options

    def _options(self) -> tuple[OptionSyntax, ...]:
        cursor = self._cursor
        if not cursor.take_if("["):
            return ()
        options: list[OptionSyntax] = []
        try:
            if not cursor.take_if("]"):
                options.append(self._option())
                while cursor.take_if(","):
                    options.append(self._option())
                cursor.expect("]", f"or `,` after option `{options[-1].name.text}`")
        except GivenUpError:
            if not cursor.skip_options():
                raise
        if cursor.is_at("["):
            raise cursor.fail("options belong in one pair of brackets", hint="write `[key, ctor]`")
        return tuple(options)

    def _option(self) -> OptionSyntax:
        cursor = self._cursor
        name = cursor.expect_name("the name of an option")
        if not cursor.take_if("="):
            return OptionSyntax(name=name, value=True)
        token = cursor.token
        if token.kind == "string":
            cursor.take()
            return OptionSyntax(name=name, value=_text(token), written=word(token))
        if token.kind == "name" and token.text.lower() in {"true", "false"}:
            cursor.take()
            is_true = token.text.lower() == "true"
            return OptionSyntax(name=name, value=is_true, written=word(token))
        quotable = token.kind in {"name", "number"}
        raise cursor.fail(
            f"expected `true`, `false` or text in quotes for option `{name.text}`, "
            f"found {cursor.found}",
            hint=f'a text needs quotes: `{name.text}="{token.text}"`' if quotable else None,
        )


def _declared_names(tokens: Sequence[Token]) -> frozenset[str]:
    """The names in places where a definition is likely to begin."""
    return frozenset(
        name.text
        for keyword, name, behind in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if keyword.kind == name.kind == "name"
        # The keyword may be misspelt, and the brace may be missing.
        and (keyword.text in {"struct", "enum"} or behind.text == "{")
    )


def _is_torn(tokens: Sequence[Token], problems: ProblemList) -> bool:
    is_unread = len(tokens) == 1 or problems.is_full
    return is_unread or any(comment.is_torn for comment in tokens[-1].comments)


def _text(token: Token) -> str:
    try:
        return unquote(token.text)
    except ValueError:
        return ""  # the scan has reported it
