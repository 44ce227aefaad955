"""Options of commands that connect to a node: the endpoint, credentials, types and filters."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, cast

import click
from click.core import ParameterSource

from skerry.cli.parameters import (
    CheckedText,
    Command,
    WrongValue,
    as_wrong_value,
    check_condition,
    check_endpoint,
    with_options,
)
from skerry.errors import (
    ConnectFailed,
    Disconnected,
    FilterError,
    RequestTimedOut,
    SchemaMismatchError,
    SkerryError,
)
from skerry.suggestions import nearest

if TYPE_CHECKING:
    from skerry.cli.saved_contexts import SavedContext
    from skerry.client.api.sync import Space
    from skerry.client.core.states import StateChanged
    from skerry.objects.base import Struct


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChoice:
    """The node that a command connects to, and the credentials."""

    endpoint: str | None = None
    secret: str | None = field(default=None, repr=False)
    ca: str | None = None
    cert: str | None = None
    key: str | None = None

    def connect(
        self, name: str, *, types: Mapping[str, Any] | None = None, timeout_s: float = 10.0
    ) -> Space:
        from skerry.client.api.sync import connect

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

    @property
    def shown_endpoint(self) -> str:
        """The endpoint without its password."""
        from skerry.client.io.endpoint_opener import default_endpoint
        from skerry.runtime.streams.endpoints import parse_endpoint

        return parse_endpoint(self.endpoint or default_endpoint(os.environ)).text

    @contextmanager
    def connect_or_fail(
        self, name: str, *, types: Mapping[str, Any] | None = None
    ) -> Iterator[Space]:
        """Connect; a timeout or lost connection inside the body raises ConnectFailed.

        The error names the node, and the command ends with the exit code for unreachable nodes.
        """
        with self.connect(name, types=types) as space:
            losses: list[str] = []

            def note_loss(change: StateChanged) -> None:
                if change.state == "disconnected":
                    losses.append(change.reason)

            space.on_state(note_loss)
            try:
                yield space
            except (RequestTimedOut, Disconnected) as error:
                raise self._no_answer(str(error), losses) from error

    @contextmanager
    def fail_if_silent(self, space: Space) -> Iterator[None]:
        """Let the body wait for the node without a timeout, as long as the node answers.

        If the node does not answer a flush within _SILENCE_S_MAX, or if the connection was lost
        _LOSS_COUNT_MAX times, the space is closed and Disconnected is raised.
        """
        watch = _SilenceWatch(space)
        watch.start()
        try:
            yield
        except Disconnected:
            if watch.fault:
                raise Disconnected(watch.fault) from None
            raise
        finally:
            watch.end()

    def _no_answer(self, what: str, losses: list[str]) -> ConnectFailed:
        why = f" (the connection was lost: {losses[0]})" if losses else ""
        endpoint = self.shown_endpoint
        error = ConnectFailed(f"the node at {endpoint} did not answer: {what}{why}")
        error.hint = f"check with `skerry doctor --node {endpoint}` that it runs, then try again"
        return error


class _SilenceWatch(threading.Thread):
    """Closes a space whose node no longer answers."""

    def __init__(self, space: Space) -> None:
        super().__init__(name="skerry-watch", daemon=True)
        self._space = space
        self._is_over = threading.Event()
        self._loss_count = 0
        self._lost_s: float | None = None
        """When the connection was lost; None while connected."""
        self.fault = ""
        """Why the space was closed."""
        space.on_state(self._note)

    def end(self) -> None:
        self._is_over.set()
        if self.fault:
            self.join()

    def run(self) -> None:
        while not self._is_over.wait(_LOOK_S):
            if self._loss_count >= _LOSS_COUNT_MAX:
                self.fault = f"the connection was lost {self._loss_count} times"
            elif self._silence_s > _SILENCE_S_MAX / 2 and not self._is_answered():
                self.fault = f"no answer for {_SILENCE_S_MAX:g} s"
            if self.fault and not self._is_over.is_set():
                self._space.close(timeout=_CLOSE_S_MAX)
                return

    def _is_answered(self) -> bool:
        # The node may be busy without sending, such as with a filter that few objects match.
        try:
            self._space.flush(timeout=_SILENCE_S_MAX / 2)
        except RequestTimedOut:
            return self._silence_s < _SILENCE_S_MAX / 2
        except Disconnected:
            return True  # The space is closed already.
        return True

    @property
    def _silence_s(self) -> float:
        # A host that accepts connections and does not answer counts as silent.
        lost_s = self._lost_s
        return self._space.silence_s if lost_s is None else monotonic() - lost_s

    def _note(self, change: StateChanged) -> None:
        is_lost = change.state == "disconnected"
        self._loss_count += is_lost
        self._lost_s = monotonic() if is_lost else None


_SILENCE_S_MAX: Final = 10.0
"""Silence after which a command that waits without a timeout gives up."""
_LOSS_COUNT_MAX: Final = 3
"""Lost connections after which such a command gives up: each time its work starts from scratch."""
_LOOK_S: Final = 0.1
_CLOSE_S_MAX: Final = 1.0
_COMPLETION_S_MAX: Final = 0.5
"""Time that a shell may wait for the node to complete a type name."""

_FILE: Final = click.Path(dir_okay=False)
_OPTIONS: Final = (
    click.option(
        "-n",
        "--node",
        "endpoint",
        metavar="URI",
        type=CheckedText(check_endpoint),
        help="Endpoint of the node, such as host:port, tls://host or uds:/path. Default:"
        " SKERRY_ENDPOINT, DOTS_ENDPOINT, the selected context, or the node of this computer.",
    ),
    click.option(
        "--context",
        "context_name",
        metavar="NAME",
        help="Node and credentials that `skerry context add` saved. Default: SKERRY_CONTEXT.",
    ),
    click.option(
        "--secret",
        metavar="TEXT",
        help="Secret for a node that requires one. Other users can see command lines: prefer"
        " --secret-file. Default: DOTS_AUTH_SECRET, or the content of SKERRY_SECRET_FILE.",
    ),
    click.option("--secret-file", type=_FILE, help="File whose only line is the secret."),
    click.option(
        "--ca",
        type=_FILE,
        help="Authorities (PEM) that sign the certificate of a tls:// node. Default: the system's.",
    ),
    click.option(
        "--cert", type=_FILE, help="Client certificate (PEM), for nodes that require one."
    ),
    click.option("--key", type=_FILE, help="Private key of --cert (PEM)."),
)


def node_options(command: Command) -> Command:
    """Add `--node` and the credentials to a command, as its argument `choice`."""

    @functools.wraps(command)
    def collected(**given: Any) -> Any:
        choice = _chosen_node(given)
        others = {name: value for name, value in given.items() if name not in _OPTION_NAMES}
        return command(choice=choice, **others)

    return cast("Command", with_options(*_OPTIONS)(collected))


_OPTION_NAMES: Final = frozenset({*NodeChoice.__dataclass_fields__, "context_name", "secret_file"})


def is_node_named() -> bool:
    """Whether an option of the running command names the node."""
    given = click.get_current_context().params
    return given.get("endpoint") is not None or given.get("context_name") is not None


def _chosen_node(given: Mapping[str, Any]) -> NodeChoice:
    chosen = {name: given.get(name) for name in NodeChoice.__dataclass_fields__}
    file = given.get("secret_file")
    saved = _saved_context(chosen["endpoint"], given.get("context_name"))
    if saved is not None:
        chosen["endpoint"] = saved.node
        for name in ("ca", "cert", "key"):
            chosen[name] = chosen[name] or getattr(saved, name)
        if chosen["secret"] is None:
            file = file or saved.secret_file
    return NodeChoice(**{**chosen, "secret": _secret(chosen["secret"], file)})


def _saved_context(endpoint: str | None, name: str | None) -> SavedContext | None:
    """The context of a command, if it has one."""
    if endpoint is not None and name is not None:
        raise click.UsageError("--node and --context exclude each other")
    name = name or os.environ.get("SKERRY_CONTEXT")
    environment = os.environ.get("SKERRY_ENDPOINT") or os.environ.get("DOTS_ENDPOINT")
    if endpoint is not None or (name is None and environment):
        return None
    from skerry.cli.saved_contexts import read_contexts

    saved = read_contexts(os.environ)
    name = name or saved.selected
    return None if name is None else saved.named(name)


def _secret(secret: str | None, file: str | None) -> str | None:
    if file is None:
        return secret
    if secret is not None:
        raise click.UsageError("--secret and --secret-file exclude each other")
    from skerry.runtime.secret_files import read_secret

    return read_secret(file, origin="flag --secret-file")


def types_option(command: Command) -> Command:
    """Add `--types` to a command, as its argument `types`: the defined classes by name."""

    def read(_context: click.Context, _option: click.Parameter, files: Any) -> Mapping[str, Any]:
        if not files:
            return {}
        from skerry.runtime.type_files import load_types

        return load_types(*files)

    return click.option(
        "-t",
        "--types",
        "types",
        multiple=True,
        metavar="FILE",
        type=_FILE,
        # Evaluated before the argument TYPE, whose completion reads the files.
        is_eager=True,
        callback=read,
        help="Type file; may be repeated. Default: the node's definitions of the types.",
    )(command)


def type_argument(**options: Any) -> Callable[[Command], Command]:
    """Add the argument `type_name` to a command, which a shell can complete."""
    options = {"metavar": "TYPE", **options}
    return click.argument("type_name", shell_complete=_complete_type, **options)


filter_options = with_options(
    click.option(
        "--where",
        metavar="E",
        type=CheckedText(check_condition),
        help='Only objects that match this condition, such as "lat > 50". Default: all.',
    ),
    click.option(
        "--fields",
        metavar="A,B",
        help="Only these fields and the key, separated by commas. Default: all fields.",
    ),
)
"""Add `--where` and `--fields` to a command, as its arguments `where` and `fields`."""


def struct_class(space: Space, name: str, types: Mapping[str, Any]) -> type[Struct]:
    """The class of a type: from the type files if there are any, otherwise from the node."""
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
            f"no struct {name} in the type files; they define {', '.join(sorted(types))}"
        )
    return found


def check_definition(space: Space, name: str) -> None:
    """Raise SchemaMismatchError if the node's definition conflicts with the type files."""
    space.request_types(name)
    for conflict in space.conflicts:
        error = SchemaMismatchError(
            name=conflict.known.name,
            known="that of the type files",
            offered="another by the node",
            difference=conflict.difference(),
        )
        error.hint = (
            "omit --types to use the node's definition, or name the type file that the programs of"
            " this node use"
        )
        raise error


def check_filter(cls: type[Struct], where: str | None, fields: Sequence[str] | None) -> None:
    """Raise WrongValue unless `--where` and `--fields` match the fields of a type."""
    from skerry.protocol.access.where.filters import make_filter

    known = ", ".join(field.name for field in cls.descriptor.fields)
    with as_wrong_value("--where", FilterError):
        make_filter(cls.descriptor, where)
    try:
        make_filter(cls.descriptor, None, fields)
    except FilterError as error:
        message = error.problems[0].message
        hint = error.hint or f"its fields are {known}"
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
        return SkerryError(f"{name} is an enum; only structs have objects")
    error = SkerryError(f"the node does not know a struct {name}")
    guess = nearest(name, known)
    error.hint = (
        f"did you mean {guess}?"
        if guess
        else "`skerry types list` lists the types of the node; --types FILE adds others"
    )
    return error


# -- completion by a shell


def _complete_type(context: click.Context, _parameter: click.Parameter, prefix: str) -> list[str]:
    """Names of types that begin with `prefix`; empty on any error, which a shell cannot show."""
    is_given = context.get_parameter_source("endpoint") == ParameterSource.COMMANDLINE
    if is_given and context.params.get("endpoint") is None:
        # It is no endpoint, which is not an error here. Another node may have other types.
        return []
    try:
        names = _completable_types(context.params)
    except (SkerryError, OSError, click.UsageError):
        return []
    return sorted(name for name in names if name.startswith(prefix))


def _completable_types(given: Mapping[str, Any]) -> list[str]:
    """Struct names of the type files if there are any, otherwise of the node."""
    types = given.get("types")
    if types:
        return _struct_names(types)
    with _chosen_node(given).connect("skerry-completion", timeout_s=_COMPLETION_S_MAX) as space:
        return _struct_names(space.request_types(timeout=_COMPLETION_S_MAX))


def _struct_names(types: Mapping[str, Any]) -> list[str]:
    from skerry.objects.base import Struct

    return [
        name
        for name, cls in types.items()
        if isinstance(cls, type) and issubclass(cls, Struct)
        if not cls.descriptor.flags.substruct_only
    ]
