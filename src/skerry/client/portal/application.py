"""Base of programs that are clients of a portal, as applications of Goby are.

All methods and callbacks run on one thread, one at a time.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import os
import signal
import sys
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from google.protobuf import text_format
from google.protobuf.message import Message

from skerry.client.portal.aio import AsyncPortalConnection
from skerry.client.portal.portal_link import PortalLink
from skerry.client.portal.responder import ProgramResponder
from skerry.errors import ConfigError, SkerryError
from skerry.limits import CONFIG_BYTES_MAX
from skerry.protocol.portal.config import PortalClientConfig
from skerry.protocol.portal.goby_config import (
    ENVIRONMENT_VARIABLE,
    read_interprocess,
    read_program_config,
)
from skerry.protocol.portal.programs.program_messages import CONFIGURATION_GROUP, HealthState
from skerry.runtime.loops import run_loop
from skerry.runtime.whole_files import read_whole

LOOP_FREQUENCY_HZ_MAX: Final = 10_000.0
"""Faster loops would only keep the processor busy."""

_BROKER_FIELDS: Final = ("send_queue_size", "receive_queue_size")


class PortalApplication:
    """A program. Subclasses override `initialize`, `loop`, `finalize` and `health`, and end with
    `sys.exit(MyProgram.run())`. The first three may be coroutines.
    """

    name: ClassVar[str] = ""
    """Name of the program; empty for that of the class."""
    loop_frequency_hz: ClassVar[float] = 0.0
    """How often `loop` is called per second; 0 for never."""
    configuration_class: ClassVar[type[Message] | None] = None
    """Class of the configuration, which is read from a file in text format and published."""

    def __init__(self, portal: AsyncPortalConnection, configuration: Any = None) -> None:
        """`configuration` is a message of `configuration_class`, or None."""
        if not 0 <= self.loop_frequency_hz <= LOOP_FREQUENCY_HZ_MAX:
            raise ConfigError(
                key="loop_frequency_hz",
                detail=f"{self.loop_frequency_hz:g} is not 0 to {LOOP_FREQUENCY_HZ_MAX:g}",
            )
        self.portal = portal
        self.configuration = configuration
        self._quit = asyncio.Event()
        self._exit_code = 0

    def initialize(self) -> Awaitable[None] | None:
        """Make the subscriptions. Other programs may publish afterwards."""
        return None

    def loop(self) -> Awaitable[None] | None:
        """Called `loop_frequency_hz` times per second. Calls that are missed are left out."""
        return None

    def finalize(self) -> Awaitable[None] | None:
        """Called before the connection is closed. What is published here is sent."""
        return None

    def health(self) -> tuple[HealthState, str]:
        """The state of the program, and a text about it, for the coroner of the vehicle."""
        return HealthState.OK, ""

    def quit(self, exit_code: int = 0) -> None:
        """End the program after the current method or callback."""
        self._exit_code = exit_code
        self._quit.set()

    async def serve(self) -> int:
        """Run until `quit`; returns the exit code. Closes the connection."""
        async with self.portal:
            ProgramResponder(self.portal, health=self.health, terminate=self.quit)
            if isinstance(self.configuration, Message):
                self.portal.publish(CONFIGURATION_GROUP, self.configuration)
            await _finished(self.initialize())
            self.portal.ready()
            await self._loop_until_quit()
            await _finished(self.finalize())
        return self._exit_code

    @classmethod
    def run(
        cls, arguments: Sequence[str] | None = None, environ: Mapping[str, str] | None = None
    ) -> int:
        """Run the program with the options of its command line; returns its exit code.

        The configuration is in the text format of Protocol Buffers. Its field `interprocess`
        describes the portal, and GOBY_INTERPROCESS gives what it leaves out. An error is printed.
        """
        options = _parser(cls).parse_args(arguments)
        try:
            config, configuration = _configured(
                cls, options, os.environ if environ is None else environ
            )
            return run_loop(_run(cls, config, configuration))
        except SkerryError as error:
            print(f"error: {error}", file=sys.stderr)
            if error.hint:
                print(f"hint:  {error.hint}", file=sys.stderr)
            return 1

    async def _loop_until_quit(self) -> None:
        if not self.loop_frequency_hz:
            await self._quit.wait()
            return
        clock = asyncio.get_running_loop()
        step_s = 1 / self.loop_frequency_hz
        due_s = clock.time()
        while not self._quit.is_set():
            await _finished(self.loop())
            due_s = max(due_s + step_s, clock.time())
            try:
                async with asyncio.timeout_at(due_s):
                    await self._quit.wait()
            except TimeoutError:
                continue


async def _run(
    cls: type[PortalApplication], config: PortalClientConfig, configuration: Message | None
) -> int:
    program = cls(AsyncPortalConnection(PortalLink(config, None)), configuration)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, program.quit)
    try:
        return await program.serve()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


async def _finished(result: Awaitable[None] | None) -> None:
    if inspect.isawaitable(result):
        await result


def _parser(cls: type[PortalApplication]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=inspect.getdoc(cls))
    parser.add_argument("file", nargs="?", help="configuration file; - is standard input")
    parser.add_argument("-c", dest="cfg", metavar="FILE", help="configuration file")
    parser.add_argument("-a", dest="name", metavar="NAME", help="name of the program")
    parser.add_argument(
        "--interprocess", default="", metavar="TEXT", help="""portal: 'platform: "auv"'"""
    )
    return parser


def _configured(
    cls: type[PortalApplication], options: argparse.Namespace, environ: Mapping[str, str]
) -> tuple[PortalClientConfig, Message | None]:
    file = options.cfg or options.file
    origin = f"file {file}" if file else "the command line"
    text = ""
    if file:
        path = Path("/dev/stdin") if file == "-" else Path(file)
        try:
            text = read_whole(path, bytes_max=CONFIG_BYTES_MAX).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(key="configuration", origin=origin, detail=str(error)) from None
    settings = read_program_config(text, origin=origin)
    variable = environ.get(ENVIRONMENT_VARIABLE, "")
    fields = read_interprocess(variable, origin=f"environment {ENVIRONMENT_VARIABLE}")
    fields |= settings.interprocess
    fields |= read_interprocess(options.interprocess, origin="flag --interprocess")
    for name in _BROKER_FIELDS:
        # The manager tells these to its clients.
        fields.pop(name, None)
    fields.setdefault("client_name", options.name or settings.name or cls.name or cls.__name__)
    try:
        config = PortalClientConfig(**fields)
    except ValueError as error:
        raise ConfigError(key="interprocess", origin=origin, detail=str(error)) from None
    return config, _message(cls.configuration_class, text, origin)


def _message(cls: type[Message] | None, text: str, origin: str) -> Message | None:
    if cls is None:
        return None
    try:
        return text_format.Parse(text, cls())
    except text_format.ParseError as error:
        raise ConfigError(key=cls.DESCRIPTOR.full_name, origin=origin, detail=str(error)) from None
