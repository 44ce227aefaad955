"""The options by which commands find a node and its types, and the connection they lead to."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from skerry.cli.completing import complete_type
from skerry.cli.parameters import CheckedText, WrongValue, blamed_on, check_endpoint
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
    from skerry.client.api.sync import Space
    from skerry.client.core.states import StateChanged
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

    @contextmanager
    def ask(self, name: str, *, types: Mapping[str, Any] | None = None) -> Iterator[Space]:
        """The same, for a command that asks the node something and ends.

        An answer that does not arrive in time, or a lost connection, is an error that names the
        node and ends the command with the exit code of a node that cannot be reached.
        """
        with self.connect(name, types=types) as space:
            losses: list[str] = []

            def note(change: StateChanged) -> None:
                if change.state == "disconnected":
                    losses.append(change.reason)

            space.on_state(note)
            try:
                yield space
            except (RequestTimedOut, Disconnected) as error:
                raise self._lost(str(error), losses) from error

    @contextmanager
    def wait(self, space: Space) -> Iterator[None]:
        """Inside, wait for the node without a timeout, as long as it is there.

        The space is closed, and Disconnected raised, if nothing is received for some time though
        the node was asked for an answer, or if the connection was lost several times.
        """
        watch = _Watch(space)
        watch.start()
        try:
            yield
        except Disconnected:
            if watch.fault:
                raise Disconnected(watch.fault) from None
            raise
        finally:
            watch.end()

    def _lost(self, what: str, losses: list[str]) -> ConnectFailed:
        why = f" (the connection was lost: {losses[0]})" if losses else ""
        error = ConnectFailed(f"the node at {self.place} did not answer: {what}{why}")
        error.hint = (
            f"see with `skerry doctor --node {self.place}` whether it runs, and repeat the command"
        )
        return error

    @property
    def place(self) -> str:
        """The endpoint, or the default one."""
        from skerry.client.io.endpoint_opener import default_endpoint

        return self.endpoint or default_endpoint(os.environ)


class _Watch(threading.Thread):
    """Closes a space whose node does not answer any more."""

    def __init__(self, space: Space) -> None:
        super().__init__(name="skerry-watch", daemon=True)
        self._space = space
        self._is_over = threading.Event()
        self._loss_count = 0
        self._lost_s: float | None = None
        """When the connection was lost; None while there is one."""
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
                self.fault = f"it was silent for {_SILENCE_S_MAX:g} s"
            if self.fault and not self._is_over.is_set():
                self._space.close(timeout=_CLOSE_S_MAX)
                return

    def _is_answered(self) -> bool:
        # It may be busy with what is not sent to us, such as a filter that few objects meet.
        try:
            self._space.flush(timeout=_SILENCE_S_MAX / 2)
        except RequestTimedOut:
            return self._silence_s < _SILENCE_S_MAX / 2
        except Disconnected:
            return True  # The space is closed already.
        return True

    @property
    def _silence_s(self) -> float:
        # A host that accepts connections and does not answer is as silent as none.
        lost_s = self._lost_s
        return self._space.silence_s if lost_s is None else monotonic() - lost_s

    def _note(self, change: StateChanged) -> None:
        is_lost = change.state == "disconnected"
        self._loss_count += is_lost
        self._lost_s = monotonic() if is_lost else None


_SILENCE_S_MAX: Final = 10.0
"""Silence after which a node counts as lost by a command that waits for it without a timeout."""
_LOSS_COUNT_MAX: Final = 3
"""Lost connections after which such a command gives up: each time the node starts again."""
_LOOK_S: Final = 0.1
_CLOSE_S_MAX: Final = 1.0

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
        from skerry.runtime.type_files import load_types

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
    from skerry.protocol.access.where.filters import make_filter

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
