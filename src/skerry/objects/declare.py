"""Types declared in Python: a decorated class whose annotations are the fields.

A declaration is written as text of the type language and read back, so that every rule of the
language applies, and the type is equal to the one that a type file would define.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, TypeVar, dataclass_transform, get_origin, overload

from skerry.codec.compile import value_plan
from skerry.errors import Problem, SchemaCheckError
from skerry.objects.annotations import field_type
from skerry.objects.base import NOT_EXTENDED, RESERVED_NAMES, Struct
from skerry.objects.classes import make_struct_class
from skerry.objects.declared import checked
from skerry.objects.json import value_to_json_values
from skerry.objects.names import python_name, python_names
from skerry.objects.spec import FieldSpec
from skerry.schema.model import Field, FieldType, Flags, RemovedField, Scope, StructType

C = TypeVar("C")


def field(
    tag: int,
    *,
    name: str | None = None,
    default: Any = None,
    default_json: str | None = None,
    documentation: str = "",
    deprecated: bool = False,
    ctor: bool = False,
    options: Mapping[str, str | bool] | None = None,
) -> Any:
    """A field of a struct, identified on the wire by its tag (1 to 31).

    `name` is the name in the type, if Python needs another name. The default is a value, or the
    JSON text of a type file. `options` are options that skerry does not interpret.
    """
    return FieldSpec(
        tag=tag,
        name=name,
        default=default,
        default_json=default_json,
        documentation=documentation,
        is_deprecated=deprecated,
        is_ctor=ctor,
        options=tuple((options or {}).items()),
    )


def key(
    tag: int,
    *,
    name: str | None = None,
    default: Any = None,
    default_json: str | None = None,
    documentation: str = "",
    deprecated: bool = False,
    ctor: bool = False,
    options: Mapping[str, str | bool] | None = None,
) -> Any:
    """A key field; otherwise as `field`."""
    spec: FieldSpec = field(**locals())  # all arguments, unchanged
    return replace(spec, is_key=True)


def removed(
    tag: int, *, name: str | None = None, type_name: str | None = None, documentation: str = ""
) -> Any:
    """A removed field, whose tag is not used again.

    It is declared among the fields, or with name and type in `@skerry.struct(removed=[...])`.
    """
    return FieldSpec(
        tag=tag, name=name, type_name=type_name, documentation=documentation, is_removed=True
    )


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
    documentation: str | None = None,
    options: Mapping[str, str | bool] | None = None,
    removed: Iterable[Any] = (),
) -> Callable[[type[C]], type[C]]: ...


# Without field specifiers: type checkers would take a field without `default=` for a required
# parameter of the constructor.
@dataclass_transform(kw_only_default=True)
def struct(cls: Any = None, /, **options: Any) -> Any:
    """Make a class a struct type: `@skerry.struct` or `@skerry.struct(cached=False)`.

    Its annotations are the fields, with `skerry.key(tag)` and `skerry.field(tag)` as defaults, and
    its docstring is the documentation. Methods are kept. To derive the class from `skerry.Struct`
    only lets type checkers see `encode` and the other methods.
    """
    # Annotations that are text may name local classes of the enclosing function.
    caller = sys._getframe(1)
    if cls is None:
        return lambda decorated: _declare(decorated, options, caller.f_locals)
    return _declare(cls, {}, caller.f_locals)


def _declare(cls: type, options: Mapping[str, Any], names: Mapping[str, Any]) -> type[Struct]:
    if isinstance(getattr(cls, "descriptor", None), StructType):
        raise _fault(cls, NOT_EXTENDED)
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
            gone.append(_removed_field(cls, spec, name=name, type_name=type_.name))
        else:
            fields.append(_field(cls, name, type_, spec, classes))
    gone += [_removed_field(cls, spec) for spec in options.get("removed", ())]
    declared = _struct_type(cls, options, tuple(fields), tuple(gone))
    known = {name: found.descriptor for name, found in classes.items()}
    model = checked(declared, qualname=cls.__qualname__, known=known)
    return _make(cls, model, specs, classes)


def _specs(cls: type) -> dict[str, FieldSpec]:
    """The declared fields by name, in their order."""
    specs: dict[str, FieldSpec] = {}
    for name, annotation in inspect.get_annotations(cls).items():
        spec = cls.__dict__.get(name)
        if _is_class_variable(annotation):
            continue
        if name.startswith(f"_{cls.__name__.lstrip('_')}__"):
            own = name.removeprefix(f"_{cls.__name__.lstrip('_')}")
            raise _fault(cls, f'{own} is a private name in Python; use field(..., name="{own}")')
        if not isinstance(spec, FieldSpec):
            raise _fault(cls, f"{name} has no tag; write {name}: ... = skerry.field(tag)")
        specs[name] = spec
    for name, value in cls.__dict__.items():
        if isinstance(value, FieldSpec) and name not in specs:
            raise _fault(cls, f"{name} has no type; write {name}: type = skerry.field({value.tag})")
    for base in cls.__mro__[1:]:
        if any(isinstance(value, FieldSpec) for value in base.__dict__.values()):
            raise _fault(cls, f"its base {base.__name__} has fields but is not a struct; move them")
    if "__init__" in cls.__dict__:
        raise _fault(cls, "a struct cannot define __init__; use __post_init__")
    return specs


def _is_class_variable(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return annotation.partition("[")[0].rpartition(".")[2] == "ClassVar"
    return annotation is ClassVar or get_origin(annotation) is ClassVar


def _annotations(cls: type, names: Mapping[str, Any]) -> dict[str, Any]:
    module = sys.modules.get(cls.__module__)
    own = {name: value for name, value in vars(cls).items() if not isinstance(value, FieldSpec)}
    try:
        return inspect.get_annotations(
            cls, globals=vars(module) if module else {}, locals={**own, **names}, eval_str=True
        )
    except NameError as error:
        raise _fault(cls, f"an annotation uses an undefined name: {error}") from None


def _field(
    cls: type, name: str, type_: FieldType, spec: FieldSpec, classes: Mapping[str, Any]
) -> Field:
    default = spec.default_json
    if spec.default is not None:
        if default is not None:
            raise _fault(cls, f"{name} has two defaults; leave out default or default_json")
        plan = value_plan(type_, lambda used: classes[used.name])
        try:
            plain = value_to_json_values(plan, spec.default)
            default = json.dumps(plain, allow_nan=False, ensure_ascii=False)
        except (AttributeError, TypeError, ValueError, OverflowError):
            raise _fault(cls, f"{name}: {spec.default!r:.60} is not a {type_.name}") from None
    return Field(
        tag=spec.tag,
        name=spec.name or name,
        type=type_,
        is_key=spec.is_key,
        is_deprecated=spec.is_deprecated,
        is_ctor=spec.is_ctor,
        default=default,
        documentation=spec.documentation,
        options=spec.options,
    )


def _removed_field(
    cls: type, spec: Any, *, name: str | None = None, type_name: str | None = None
) -> RemovedField:
    if not isinstance(spec, FieldSpec) or not spec.is_removed:
        raise _fault(cls, f"{spec!r} is not a removed field; write skerry.removed(tag, ...)")
    name, type_name = spec.name or name, spec.type_name or type_name
    if name is None or type_name is None:
        raise _fault(cls, f"the removed field with tag {spec.tag} needs a name and a type")
    return RemovedField(
        tag=spec.tag, name=name, type_name=type_name, documentation=spec.documentation
    )


def _struct_type(
    cls: type, options: Mapping[str, Any], fields: tuple[Field, ...], gone: tuple[RemovedField, ...]
) -> StructType:
    facts = dict(options)
    name = facts.pop("name", None) or cls.__name__
    is_deprecated = facts.pop("deprecated", False)
    scope = facts.pop("scope", None)
    documentation = facts.pop("documentation", None)
    others = facts.pop("options", None) or {}
    facts.pop("removed", None)
    try:
        chosen = None if scope is None else Scope[str(scope).upper()]
        flags = Flags(**facts)
    except KeyError:
        names = ", ".join(item.name.lower() for item in Scope)
        raise _fault(cls, f"unknown scope {scope!r}; the scopes are {names}") from None
    except TypeError:
        known = [*Flags.__dataclass_fields__, "name", "scope", "deprecated", "documentation"]
        unknown = ", ".join(name for name in facts if name not in known)
        raise _fault(
            cls, f"@struct has no parameter {unknown}; it has {', '.join(known)}"
        ) from None
    return StructType(
        name=name,
        fields=fields,
        flags=flags,
        scope=chosen,
        is_deprecated=is_deprecated,
        removed=gone,
        documentation=inspect.cleandoc(cls.__doc__ or "")
        if documentation is None
        else documentation,
        options=tuple(others.items()),
    )


def _make(
    cls: type, model: StructType, specs: Mapping[str, FieldSpec], classes: Mapping[str, Any]
) -> type[Struct]:
    dropped = {*specs, "__dict__", "__weakref__", "__slots__"}
    namespace = {name: value for name, value in cls.__dict__.items() if name not in dropped}
    bases = tuple(base for base in cls.__bases__ if base is not object)
    if not issubclass(cls, Struct):
        bases = (*bases, Struct)
    made = make_struct_class(
        model,
        classes,
        module=cls.__module__,
        qualname=cls.__qualname__,
        namespace=namespace,
        bases=bases,
        attributes=_attributes(cls, model, specs),
    )
    _move_methods(namespace.values(), made)
    return made


def _move_methods(values: Iterable[Any], made: type) -> None:
    """Make `super()` in methods refer to the created class, not to the decorated one."""
    for value in values:
        parts = (value.fget, value.fset) if isinstance(value, property) else (value,)
        for part in parts:
            function = getattr(part, "__func__", part)
            if inspect.isfunction(function) and "__class__" in function.__code__.co_freevars:
                index = function.__code__.co_freevars.index("__class__")
                assert function.__closure__ is not None
                function.__closure__[index].cell_contents = made


def _attributes(cls: type, model: StructType, specs: Mapping[str, FieldSpec]) -> dict[str, str]:
    """The Python names of the fields: the chosen ones, and free names for the rest."""
    chosen = {spec.name: name for name, spec in specs.items() if spec.name and not spec.is_removed}
    for name in chosen.values():
        if python_name(name, RESERVED_NAMES) != name:
            raise _fault(cls, f"{name} is a reserved name; use {python_name(name, RESERVED_NAMES)}")
    names = [field.name for field in model.fields]
    rest = [name for name in names if name not in chosen]
    free = python_names(rest, {*RESERVED_NAMES, *chosen.values()})
    return {name: chosen.get(name) or free[name] for name in names}


def _fault(cls: type, message: str) -> SchemaCheckError:
    return SchemaCheckError([Problem(message=message, file=f"<class {cls.__qualname__}>")])
