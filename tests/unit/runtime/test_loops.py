"""Selection of the event loop."""

from __future__ import annotations

import asyncio
import importlib.util
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from skerry.errors import ConfigError
from skerry.runtime.loops import LoopKind, new_loop, run_loop

HAS_UVLOOP = importlib.util.find_spec("uvloop") is not None


def loop_of(kind: LoopKind) -> str:
    """The module of the loop that is used."""
    found: list[str] = []

    async def main() -> None:
        found.append(type(asyncio.get_running_loop()).__module__.partition(".")[0])

    run_loop(main(), kind)
    return found[0]


def test_loop_of_asyncio_is_used_when_it_is_named() -> None:
    assert loop_of("asyncio") == "asyncio"


@pytest.mark.skipif(not HAS_UVLOOP, reason="uvloop is not installed")
@pytest.mark.parametrize("kind", ["auto", "uvloop"])
def test_uvloop_is_used_where_it_is_installed(kind: LoopKind) -> None:
    assert loop_of(kind) == "uvloop"


@pytest.mark.parametrize("kind", ["asyncio", "auto"])
def test_signal_handler_is_restored_after_the_loop(kind: LoopKind) -> None:
    before = signal.getsignal(signal.SIGINT)
    loop_of(kind)
    assert signal.getsignal(signal.SIGINT) is before


def test_loop_may_run_in_another_thread() -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(loop_of, "auto").result() in ("asyncio", "uvloop")


def test_loop_of_asyncio_is_used_where_uvloop_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert loop_of("auto") == "asyncio"


@pytest.mark.parametrize("kind", ["asyncio", "auto"])
def test_new_loop_is_of_the_same_kind(kind: LoopKind) -> None:
    loop = new_loop(kind)
    try:
        assert type(loop).__module__.partition(".")[0] == loop_of(kind)
        assert loop.run_until_complete(asyncio.sleep(0, 7)) == 7
    finally:
        loop.close()


def test_requested_uvloop_that_is_not_installed_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match="uvloop is not installed") as caught:
        loop_of("uvloop")
    assert caught.value.hint is not None
    assert "skerry[speed]" in caught.value.hint
