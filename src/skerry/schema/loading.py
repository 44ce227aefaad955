"""Loads type files and the files that they import. The caller passes the function that reads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from types import MappingProxyType
from typing import Final, TypeAlias

from skerry.errors import LimitExceeded, Problem, SchemaSyntaxError
from skerry.schema.check import Checked, check
from skerry.schema.language.lexer import decode
from skerry.schema.language.parser import parse_partly
from skerry.schema.language.syntax import SyntaxFile
from skerry.schema.model import NamedType

SOURCE_COUNT_MAX: Final = 1000
"""Type files of one run, including imported files. A folder with one type per file stays well
below."""

Reader: TypeAlias = Callable[[str], "str | bytes | None"]
"""The content of the file of that name; None if there is no such file."""

_NOTHING: Final[Mapping[str, NamedType]] = MappingProxyType({})


def load(paths: Iterable[str], read: Reader, known: Mapping[str, NamedType] = _NOTHING) -> Checked:
    """The types of the files and of those they import."""
    return check(resolve(paths, read, known), known)


def resolve(
    paths: Iterable[str], read: Reader, known: Mapping[str, NamedType] = _NOTHING
) -> tuple[SyntaxFile, ...]:
    """Parse the files, then those that they import.

    `import Foo` finds a type `Foo` in any of the given files, else a known one, else in `Foo.dots`
    in the folder of the importing file. Files may import each other. `check` reports an import that
    finds nothing. Raises SchemaSyntaxError with the faults of all files, and with those that
    `check` finds in the definitions that can be parsed.
    """
    loading = _Loading(read, known)
    for path in paths:
        loading.add(str(PurePath(path)))
    loading.follow_imports()
    return loading.result()


class _Loading:
    def __init__(self, read: Reader, known: Mapping[str, NamedType]) -> None:
        self._read = read
        self._known = known
        self._files: dict[str, SyntaxFile] = {}
        self._names: set[str] = set()
        self._unfollowed: deque[SyntaxFile] = deque()
        self._problems: list[Problem] = []

    def add(self, path: str) -> None:
        """Parse the file, once."""
        if path not in self._files and not self._add_if_there(path):
            self._files[path] = _unread(path)
            self._problems.append(Problem(message="there is no such file", file=path, text=path))

    def follow_imports(self) -> None:
        """Parse imported files, until no new one is found."""
        while self._unfollowed:
            file = self._unfollowed.popleft()
            for item in file.imports:
                name = item.name.text
                if name not in self._names and name not in self._known:
                    self._add_if_there(str(PurePath(file.file).with_name(f"{name}.dots")))

    def result(self) -> tuple[SyntaxFile, ...]:
        files = tuple(self._files.values())
        if self._problems:
            check(files, self._known, self._problems)  # raises them together with its own
        return files

    def _add_if_there(self, path: str) -> bool:
        if path in self._files:
            return True
        content = self._read(path)
        if content is None:
            return False
        count = len(self._files) + 1
        if count > SOURCE_COUNT_MAX:
            raise LimitExceeded(what="number of type files", value=count, limit=SOURCE_COUNT_MAX)
        try:
            text = decode(content, path) if isinstance(content, bytes) else content
        except SchemaSyntaxError as error:
            self._files[path] = _unread(path)
            self._problems += error.problems
            return True
        file, problems = parse_partly(text, path)
        self._problems += problems
        self._files[path] = file
        self._names.update(definition.name.text for definition in file.types)
        self._names |= file.broken
        self._unfollowed.append(file)
        return True


def _unread(path: str) -> SyntaxFile:
    return SyntaxFile(file=path, items=(), is_torn=True)
