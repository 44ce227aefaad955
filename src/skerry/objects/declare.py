"""Types declared in Python: a decorated class, its annotations the fields.

What is declared is written as text of the type language and read back, so every rule of the
language holds here too, and the type is equal to the one that a file would give.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform, overload

from skerry.codec.compile import value_plan
from skerry.errors import Problem, SchemaCheckError
from skerry.objects.annotations import field_type
from skerry.objects.base import Struct
from skerry.objects.classes import make_struct_class
from skerry.objects.json import value_to_plain
from skerry.schema.check import define
from skerry.schema.model import Field, FieldType, Flags, RemovedField, Scope, StructType
from skerry.schema.writer import write_type

__all__ = ["field", "key", "removed", "struct"]

C = TypeVar("C")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spec:
    """What stands as the default of an annotated field."""

    tag: int
    default: Any = None
    documentation: str = ""
    is_key: bool = False
    is_deprecated: bool = False
    is_ctor: bool = False
    is_removed: bool = False


def field(
    tag: int,
    *,
    default: Any = None,
    documentation: str = "",
    deprecated: bool = False,
    ctor: bool = False,
) -> Any:
    """A field of a struct, identified on the wire by its tag (1 to 31)."""
    return _Spec(
        tag=tag,
        default=default,
        documentation=documentation,
        is_deprecated=deprecated,
        is_ctor=ctor,
    )


def key(
    tag: int,
    *,
    default: Any = None,
    documentation: str = "",
    deprecated: bool = False,
    ctor: bool = False,
) -> Any:
    """A field that is part of the identity of an object."""
    return _Spec(
        tag=tag,
        default=default,
        documentation=documentation,
        is_key=True,
        is_deprecated=deprecated,
        is_ctor=ctor,
    )


def removed(tag: int, *, documentation: str = "") -> Any:
    """A field that is gone; its tag is not used again."""
    return _Spec(tag=tag, documentation=documentation, is_removed=True)


@overload
def struct(cls: type[C], /) -> type[C]: ...


@overload
def struct(
    *,
    name: str | None = None,
    cached: bool = True,
    internal: bool = False,
    persistent: bool = False,
    cleanup: bool = False,
    local: bool = False,
    substruct_only: bool = False,
    deprecated: bool = False,
    scope: str | None = None,
) -> Callable[[type[C]], type[C]]: ...


@dataclass_transform(kw_only_default=True, field_specifiers=(field, key))
def struct(cls: Any = None, /, **options: Any) -> Any:
    """Make a class a struct type: `@skerry.struct` or `@skerry.struct(cached=False)`.

    Its annotations are the fields, `skerry.key(tag)` and `skerry.field(tag)` their defaults, its
    docstring the documentation. Methods stay. Deriving the class from `skerry.Struct` changes
    nothing but lets type checkers know `encode` and its like.
    """
    # Annotations that are text may name classes of the function the class stands in.
    caller = sys._getframe(1)
    if cls is None:
        return lambda decorated: _declare(decorated, options, caller.f_locals)
    return _declare(cls, {}, caller.f_locals)


def _declare(cls: type, options: Mapping[str, Any], names: Mapping[str, Any]) -> type[Struct]:
    specs = _specs(cls)
    annotations = _annotations(cls, names)
    classes: dict[str, Any] = {}
    fields: list[Field] = []
    gone: list[RemovedField] = []
    for name, spec in specs.items():
        try:
            type_ = field_type(annotations[name], classes)
        except TypeError as error:
            raise _fault(cls, f"{name}: {error}") from None
        if spec.is_removed:
            gone.append(_removed_field(name, type_, spec))
        else:
            fields.append(_field(cls, name, type_, spec, classes))
    declared = _struct_type(cls, options, tuple(fields), tuple(gone))
    known = {name: found.descriptor for name, found in classes.items()}
    checked = define(write_type(declared), file=f"<class {cls.__qualname__}>", known=known)
    (model,) = checked.types
    assert isinstance(model, StructType)
    return _make(cls, model, specs, classes)


def _specs(cls: type) -> dict[str, _Spec]:
    """The declared fields by name, in their order."""
    specs: dict[str, _Spec] = {}
    for name in inspect.get_annotations(cls):
        spec = cls.__dict__.get(name)
        if not isinstance(spec, _Spec):
            raise _fault(cls, f"{name} has no tag; write {name}: ... = skerry.field(tag)")
        specs[name] = spec
    for name, value in cls.__dict__.items():
        if isinstance(value, _Spec) and name not in specs:
            raise _fault(cls, f"{name} has no type; write {name}: type = skerry.field({value.tag})")
    if "__init__" in cls.__dict__:
        raise _fault(cls, "a struct has a constructor of its own; use __post_init__")
    return specs


def _annotations(cls: type, names: Mapping[str, Any]) -> dict[str, Any]:
    module = sys.modules.get(cls.__module__)
    try:
        return inspect.get_annotations(
            cls, globals=vars(module) if module else {}, locals=names, eval_str=True
        )
    except NameError as error:
        raise _fault(cls, f"an annotation names what is not there: {error}") from None


def _field(
    cls: type, name: str, type_: FieldType, spec: _Spec, classes: Mapping[str, Any]
) -> Field:
    default = None
    if spec.default is not None:
        plan = value_plan(type_, lambda used: classes[used.name])
        try:
            default = json.dumps(value_to_plain(plan, spec.default))
        except (AttributeError, TypeError, ValueError):
            raise _fault(cls, f"{name}: {spec.default!r} is not a {type_.name}") from None
    return Field(
        tag=spec.tag,
        name=name,
        type=type_,
        is_key=spec.is_key,
        is_deprecated=spec.is_deprecated,
        is_ctor=spec.is_ctor,
        default=default,
        documentation=spec.documentation,
    )


def _removed_field(name: str, type_: FieldType, spec: _Spec) -> RemovedField:
    return RemovedField(
        tag=spec.tag, name=name, type_name=type_.name, documentation=spec.documentation
    )


def _struct_type(
    cls: type,
    options: Mapping[str, Any],
    fields: tuple[Field, ...],
    gone: tuple[RemovedField, ...],
) -> StructType:
    facts = dict(options)
    name = facts.pop("name", None) or cls.__name__
    is_deprecated = facts.pop("deprecated", False)
    scope = facts.pop("scope", None)
    try:
        chosen = None if scope is None else Scope[str(scope).upper()]
        flags = Flags(**facts)
    except KeyError:
        names = ", ".join(item.name.lower() for item in Scope)
        raise _fault(cls, f"there is no scope {scope!r}; there are {names}") from None
    except TypeError as error:
        raise _fault(cls, str(error)) from None
    return StructType(
        name=name,
        fields=fields,
        flags=flags,
        scope=chosen,
        is_deprecated=is_deprecated,
        removed=gone,
        documentation=inspect.cleandoc(cls.__doc__ or ""),
    )


def _make(
    cls: type, model: StructType, specs: Mapping[str, _Spec], classes: Mapping[str, Any]
) -> type[Struct]:
    dropped = {*specs, "__dict__", "__weakref__", "__annotations__", "__slots__"}
    namespace = {name: value for name, value in cls.__dict__.items() if name not in dropped}
    bases = tuple(base for base in cls.__bases__ if base is not object)
    if not issubclass(cls, Struct):
        bases = (*bases, Struct)
    return make_struct_class(
        model,
        classes,
        module=cls.__module__,
        qualname=cls.__qualname__,
        namespace=namespace,
        bases=bases,
    )


def _fault(cls: type, message: str) -> SchemaCheckError:
    return SchemaCheckError([Problem(message=message, file=f"<class {cls.__qualname__}>")])
