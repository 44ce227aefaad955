"""Checks of the arguments that programs pass to a space.

A wrong argument is rejected here with a clear error. If it were sent to the node, it would break
the connection, and each connection after it, since a space repeats its joins and claims.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from skerry.errors import LocalProtocolError
from skerry.limits import NAME_BYTES_MAX
from skerry.objects.base import Struct
from skerry.protocol.patterns import check_pattern, meant_pattern

_FOREIGN_SIGNS: Final = "/*#>+"
"""Signs of subjects and wild cards of other systems, which no name of a type has."""


def check_class(cls: Any) -> type[Struct]:
    """Return a class of a type; raises LocalProtocolError for anything else."""
    if not (isinstance(cls, type) and issubclass(cls, Struct) and hasattr(cls, "descriptor")):
        hint = "pass the class of a type, as `load_types` and `@skerry.struct` make it"
        raise _fault(f"{cls!r:.80} is not a class of a type", hint)
    return cls


def check_group(name: str) -> str:
    """Return a valid name of a type or a valid subject pattern."""
    if name.startswith("/"):
        return check_pattern(check_text(name, "a pattern"))
    if any(sign in name for sign in _FOREIGN_SIGNS):
        hint = f"a subject pattern begins with /; did you mean {meant_pattern(name)!r}?"
        raise _fault(f"{name!r:.80} is not a name of a type", hint)
    # The same names that a description of a type may have.
    if not (name and name.isprintable()) or len(name.encode()) > NAME_BYTES_MAX:
        hint = "a type has a name such as Vessel, and a subject pattern begins with /"
        raise _fault(f"{name!r:.80} is not a name of a type", hint)
    return name


def check_type_names(names: Iterable[object]) -> list[str]:
    """Return valid names of types, sorted."""
    return sorted(check_text(name, "the name of a type", NAME_BYTES_MAX) for name in names)


def check_condition(where: object, fields: object) -> list[str] | None:
    """Return the names of the selected fields; None for all fields."""
    if where is not None and not isinstance(where, str):
        hint = "write a condition such as where=\"lat > 50 and name like 'M%'\""
        raise _fault(f"`where` must be a str, got {type(where).__name__}", hint)
    if fields is None:
        return None
    names: list[Any] = [fields]
    if isinstance(fields, Iterable) and not isinstance(fields, str | bytes):
        names = list(fields)
        if all(isinstance(name, str) for name in names):
            return names
    kinds = ", ".join(dict.fromkeys(type(name).__name__ for name in names))
    hint = "write a list of names such as fields=['lat', 'lon']"
    raise _fault(f"`fields` must be names of fields, got {kinds}", hint)


def check_text(value: object, what: str, bytes_max: int | None = None) -> str:
    """Return a text that can be encoded and is not too long."""
    if not isinstance(value, str):
        raise _fault(f"{what} must be a str, got {type(value).__name__}", "write it in quotes")
    try:
        size = len(value.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        hint = "it contains half of a surrogate pair; decode it with the right encoding"
        raise _fault(f"{what} cannot be encoded as UTF-8: {value!r:.80}", hint) from None
    if bytes_max is not None and size > bytes_max:
        raise _fault(f"{what} has {size} bytes, the limit is {bytes_max}", "use a shorter one")
    return value


def check_count(value: object, what: str) -> None:
    """Check that a value is a whole number above 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        detail = f"{what} must be a whole number above 0, got {value!r:.40}"
        raise _fault(detail, "leave it out to use the default")


def _fault(detail: str, hint: str) -> LocalProtocolError:
    error = LocalProtocolError(detail)
    error.hint = hint
    return error
