"""Which definitions use which others, and an order in which each follows those it uses."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from skerry import limits
from skerry.schema.syntax import EnumSyntax, FieldSyntax, StructSyntax


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
