"""What programs give to a space, looked at before anything is done with it.

Faults are found here and told in words: what is wrong further inside would break a connection, and
each one after it, since a space asks a node anew for all that it wants.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from skerry.errors import LocalProtocolError
from skerry.limits import NAME_BYTES_MAX
from skerry.objects.base import Struct
from skerry.protocol.patterns import check_pattern

__all__ = [
    "check_class",
    "check_condition",
    "check_count",
    "check_group",
    "check_text",
    "check_type_names",
]


def check_class(cls: Any) -> type[Struct]:
    """The class of a type; LocalProtocolError for anything else."""
    if not (isinstance(cls, type) and issubclass(cls, Struct) and hasattr(cls, "descriptor")):
        hint = "give the class of a type, as `load_types` and `@skerry.struct` make it"
        raise _fault(f"{cls!r:.80} is no class of objects", hint)
    return cls


def check_group(name: str) -> str:
    """The name of a type, or a pattern of subjects, as it is asked for."""
    if name.startswith("/"):
        return check_pattern(check_text(name, "a pattern"))
    # Whatever a description may name a type.
    if not (name and name.isprintable()) or len(name.encode()) > NAME_BYTES_MAX:
        hint = "a type has a name such as Vessel, and a pattern of subjects begins with /"
        raise _fault(f"{name!r:.80} is no name of a type", hint)
    return name


def check_type_names(names: Iterable[object]) -> list[str]:
    """Names under which a node may know types."""
    return sorted(check_text(name, "the name of a type", NAME_BYTES_MAX) for name in names)


def check_condition(where: object, fields: object) -> list[str] | None:
    """The names of the fields that are wanted; None for all of them."""
    if where is not None and not isinstance(where, str):
        hint = "write a condition such as where=\"lat > 50 and name like 'M%'\""
        raise _fault(f"`where` is a text, got {type(where).__name__}", hint)
    if fields is None:
        return None
    names: list[Any] = [fields]
    if isinstance(fields, Iterable) and not isinstance(fields, str | bytes):
        names = list(fields)
        if all(isinstance(name, str) for name in names):
            return names
    kinds = ", ".join(dict.fromkeys(type(name).__name__ for name in names))
    hint = "write a list of names such as fields=['lat', 'lon']"
    raise _fault(f"`fields` are names, got {kinds}", hint)


def check_text(value: object, what: str, bytes_max: int | None = None) -> str:
    """A text that can be sent, and is not too long."""
    if not isinstance(value, str):
        raise _fault(f"{what} is a text, got {type(value).__name__}", "write it in quotes")
    try:
        size = len(value.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        hint = "it has half a character in it; read it with the encoding it was written in"
        raise _fault(f"{what} cannot be written as UTF-8: {value!r:.80}", hint) from None
    if bytes_max is not None and size > bytes_max:
        raise _fault(f"{what} has {size} bytes, the limit is {bytes_max}", "use a shorter one")
    return value


def check_count(value: object, what: str) -> None:
    """A whole number above 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        detail = f"{what} is a whole number above 0, got {value!r:.40}"
        raise _fault(detail, "leave it out where the default will do")


def _fault(detail: str, hint: str) -> LocalProtocolError:
    error = LocalProtocolError(detail)
    error.hint = hint
    return error
