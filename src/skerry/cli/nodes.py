"""The options by which commands find a node and its types, and the connection they lead to."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from skerry.cli.completing import complete_type
from skerry.cli.parameters import CheckedText, WrongValue, blamed_on, check_endpoint
from skerry.errors import FilterError, SchemaMismatchError, SkerryError
from skerry.spelling import nearest

if TYPE_CHECKING:
    from skerry.client.sync import Space
    from skerry.objects.base import Struct

__all__ = [
    "NodeChoice",
    "check_definition",
    "check_filter",
    "chosen_secret",
    "node_options",
    "struct_class",
    "type_argument",
    "types_option",
]

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChoice:
    """Which node was meant, and how to get in."""

    endpoint: str | None = None
    secret: str | None = field(default=None, repr=False)
    ca: str | None = None
    cert: str | None = None
    key: str | None = None

    def connect(
        self, name: str, *, types: Mapping[str, Any] | None = None, timeout_s: float = 10.0
    ) -> Space:
        """A space of that node, for a program of this name."""
        from skerry.client.sync import connect

        return connect(
            self.endpoint,
            name=name,
            types=types or {},
            secret=self.secret,
            ca=self.ca,
            cert=self.cert,
            key=self.key,
            timeout=timeout_s,
        )


_FILE: Final = click.Path(dir_okay=False)
_OPTIONS: Final = (
    click.option(
        "--node",
        "endpoint",
        metavar="URI",
        type=CheckedText(check_endpoint),
        help="Where the node is, as tcp://host:port or uds:/path. If not given:"
        " SKERRY_ENDPOINT, DOTS_ENDPOINT, else the node of this computer.",
    ),
    click.option(
        "--secret",
        metavar="TEXT",
        help="Secret for a node that asks for one. Others can see command lines: use"
        " --secret-file, or set DOTS_AUTH_SECRET or SKERRY_SECRET_FILE.",
    ),
    click.option(
        "--secret-file",
        type=_FILE,
        help="File with the secret in its only line.",
    ),
    click.option("--ca", type=_FILE, help="Who signs the certificate of a tls:// node."),
    click.option("--cert", type=_FILE, help="Our certificate, for nodes that want one."),
    click.option("--key", type=_FILE, help="Its private key."),
)


def node_options(command: Command) -> Command:
    """Gives a command `--node` and what else it takes to connect, as its argument `choice`."""
    names = NodeChoice.__dataclass_fields__

    @functools.wraps(command)
    def collected(**given: Any) -> Any:
        given["secret"] = chosen_secret(given["secret"], given.pop("secret_file"))
        given["choice"] = NodeChoice(**{name: given.pop(name) for name in names})
        return command(**given)

    wrapped: Any = collected
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    found: Command = wrapped
    return found


def chosen_secret(secret: str | None, file: str | None) -> str | None:
    """The secret that the options give, if any."""
    if file is None:
        return secret
    if secret is not None:
        raise click.UsageError("give either --secret or --secret-file")
    from skerry.runtime.secret_files import read_secret

    return read_secret(file, origin="flag --secret-file")


def types_option(command: Command) -> Command:
    """Gives a command `--types`, as its argument `types`: what the files define, by name."""

    def read(_context: click.Context, _option: click.Parameter, files: Any) -> Mapping[str, Any]:
        if not files:
            return {}
        from skerry.runtime.typefiles import load_types

        return load_types(*files)

    return click.option(
        "--types",
        "types",
        multiple=True,
        metavar="FILE",
        type=_FILE,
        # Before the argument TYPE, whose completion looks into the files.
        is_eager=True,
        callback=read,
        help="Type file; several are fine. Without, types are learned from the node.",
    )(command)


def type_argument(**options: Any) -> Callable[[Command], Command]:
    """Gives a command the name of a type as `type_name`, which a shell can complete."""
    options = {"metavar": "TYPE", **options}
    return click.argument("type_name", shell_complete=complete_type, **options)


def struct_class(space: Space, name: str, types: Mapping[str, Any]) -> type[Struct]:
    """The class of a type: of the type files if there are any, else as the node knows it."""
    found = _known(name, types)
    if name.startswith("Skerry") and not space.has_additions:
        raise SkerryError(f"{name} is a type of skerry nodes, and {space.node_name} is not one")
    if found is None and not types:
        known = space.request_types(name)
        found = _known(name, known)
        if found is None:
            raise _unknown(name, space.request_types())
    if found is None:
        raise click.UsageError(
            f"there is no struct {name} in the type files; there are {', '.join(sorted(types))}"
        )
    return found


def check_definition(space: Space, name: str) -> None:
    """See that the node means by a type what the type files do; SchemaMismatchError if not."""
    space.request_types(name)
    for conflict in space.conflicts:
        error = SchemaMismatchError(
            name=conflict.known.name,
            known="that of the type files",
            offered="another by the node",
            difference=conflict.difference(),
        )
        error.hint = (
            "leave out --types to see objects as the node knows them, or name the file that the"
            " programs of this node use"
        )
        raise error


def check_filter(cls: type[Struct], where: str | None, fields: Sequence[str] | None) -> None:
    """See that `--where` and `--fields` fit a type; if not, the command line is wrong."""
    from skerry.protocol.access.filters import make_filter

    known = ", ".join(field.name for field in cls.descriptor.fields)
    with blamed_on("--where", FilterError):
        make_filter(cls.descriptor, where)
    try:
        make_filter(cls.descriptor, None, fields)
    except FilterError as error:
        message = error.problems[0].message
        hint = error.hint or f"it has {known}"
        raise WrongValue(message, option="--fields", hint=hint) from error


def _known(name: str, types: Mapping[str, Any]) -> type[Struct] | None:
    from skerry.objects.base import Struct
    from skerry.objects.internal import internal_class
    from skerry.schema.internal import internal_types

    cls = types.get(name)
    if cls is None and name in internal_types():
        cls = internal_class(name)
    return cls if isinstance(cls, type) and issubclass(cls, Struct) else None


def _unknown(name: str, known: Mapping[str, Any]) -> SkerryError:
    if name in known:
        return SkerryError(f"{name} is an enum, and has no objects of its own")
    error = SkerryError(f"the node knows no struct {name}")
    guess = nearest(name, known)
    error.hint = (
        f"did you mean {guess}?"
        if guess
        else "`skerry types list` shows those that you may use; --types FILE brings others"
    )
    return error
