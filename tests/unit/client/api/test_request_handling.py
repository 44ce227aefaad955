"""Handlers at work: what they return, when they fail, and what takes longer."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

import skerry
from skerry import aio
from skerry.client.api.service_handles import check_handler
from skerry.engine.services.requests import REQUEST_WINDOW_COUNT
from skerry.errors import (
    Disconnected,
    LocalProtocolError,
    NotRegistered,
    RequestError,
    RequestTimedOut,
)
from tests.unit.client.conftest import RunningNode
from tests.unit.client.stage import Ask, Part, Say, Shout


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 30))


def upper(asked: Any) -> Any:
    return Say(text=asked.text.upper())


def served(node: str, handler: Any, obj: Any, timeout: float = 30.0) -> Any:
    """The answers of a handler of a blocking space."""
    with skerry.connect(node) as server, skerry.connect(node) as client:
        server.serve(Ask, handler)
        return client.request(obj, timeout=timeout)


# -- the blocking space


def test_another_program_answers_a_request(node: str) -> None:
    with skerry.connect(node) as server, skerry.connect(node) as client:
        with server.serve(Ask, upper, name="router") as service:
            assert service.is_held
            assert client.request(Ask(text="a"), to="router").text == "A"
            assert server.request(Ask(text="b"), to="router").text == "B", "also from itself"
            with pytest.raises(NotRegistered, match="no program serves Ask") as caught:
                client.request(Ask(text="a"))
            assert "start the program" in (caught.value.hint or "")
        server.flush()
        with pytest.raises(NotRegistered, match="no program serves Ask as router"):
            client.request(Ask(text="a"), to="router")


def test_answer_may_be_none(node: str) -> None:
    assert served(node, lambda _: None, Ask()) is None


def test_request_is_of_the_class_that_is_served(node: str) -> None:
    class MyAsk(Ask):  # type: ignore[misc]
        """With a method."""

        def shout(self) -> Any:
            return Say(text=f"{self.text}!")

    with skerry.connect(node) as server, skerry.connect(node) as client:
        server.serve(MyAsk, MyAsk.shout)
        assert client.request(Ask(text="a")).text == "a!"


def test_error_of_the_handler_fails_the_request_and_is_logged(
    node: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(asked: Any) -> Any:
        if asked.text == "exit":
            raise SystemExit(3)
        if asked.text == "fail":
            raise ValueError("no way")
        return upper(asked)

    with skerry.connect(node) as server, skerry.connect(node) as client:
        server.serve(Ask, fail)
        with pytest.raises(RequestError, match=r"^Ask failed: ValueError: no way$"):
            client.request(Ask(text="fail"))
        with pytest.raises(RequestError, match=r"^Ask failed: SystemExit: 3$"):
            client.request(Ask(text="exit"))
        assert client.request(Ask(text="on")).text == "ON"
    assert [record.getMessage() for record in caplog.records] == ["a callback failed"] * 2


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (5, "an answer must be an object of a type, not int"),
        (Part(on=True), "can only be used inside other structs"),
        (Say(text=5), r"EncodeError: Say\.text"),
    ],
)
def test_invalid_answer_fails_the_request(node: str, answer: Any, text: str) -> None:
    with pytest.raises(RequestError, match=text):
        served(node, lambda _: answer, Ask())


def test_error_with_a_failing_text_is_still_reported(node: str) -> None:
    class Silent(Exception):
        def __str__(self) -> str:
            raise ValueError("nothing to say")

    def fail(_: Any) -> Any:
        raise Silent

    with pytest.raises(RequestError, match="Silent: an error without a text"):
        served(node, fail, Ask())


def test_blocking_space_rejects_a_coroutine_as_answer(node: str) -> None:
    async def later(_: Any) -> Any:
        return None

    with skerry.connect(node) as server, skerry.connect(node) as client:
        with pytest.raises(LocalProtocolError, match="cannot be `async`") as caught:
            server.serve(Ask, later)  # type: ignore[arg-type]
        assert "skerry.aio" in (caught.value.hint or "")
        with pytest.raises(LocalProtocolError, match="a handler must be a function, not int"):
            server.serve(Ask, 5)  # type: ignore[arg-type]
        handlers: list[Any] = [lambda asked: [later(asked)].pop()]
        server.serve(Ask, handlers[0])
        with pytest.raises(RequestError, match="not coroutine"):
            client.request(Ask())


def test_async_is_found_in_objects_too() -> None:
    class Later:
        async def __call__(self, _: Any) -> Any:
            return None

    with pytest.raises(LocalProtocolError, match="cannot be `async`"):
        check_handler(Later(), may_await=False)
    check_handler(Later(), may_await=True)


def test_handler_publishes_before_it_answers_and_may_not_wait(node: str) -> None:
    shouts: queue.SimpleQueue[str] = queue.SimpleQueue()
    with skerry.connect(node) as server, skerry.connect(node) as client:
        client.subscribe(Shout, lambda event: shouts.put(event.object.text))
        client.flush()

        def handle(asked: Any) -> Any:
            server.publish(Shout(text=asked.text))
            if asked.text == "wait":
                server.request(Ask(text="x"))
            return None

        server.serve(Ask, handle)
        client.request(Ask(text="a"))
        assert shouts.get_nowait() == "a", "it came before the answer"
        with pytest.raises(RequestError, match="a callback cannot wait"):
            client.request(Ask(text="wait"))


def test_future_of_an_executor_is_answered_when_it_is_done(node: str) -> None:
    gates = {"slow": threading.Event(), "fast": threading.Event()}
    gates["fast"].set()

    def work(asked: Any) -> Any:
        assert gates[asked.text].wait(30)
        return upper(asked)

    with (
        ThreadPoolExecutor(2) as pool,
        skerry.connect(node) as server,
        skerry.connect(node) as client,
    ):
        server.serve(Ask, lambda asked: pool.submit(work, asked))
        slow = pool_request(client, Ask(text="slow"))
        assert client.request(Ask(text="fast"), timeout=30).text == "FAST"
        gates["slow"].set()
        assert slow.result(30).text == "SLOW"


def pool_request(client: skerry.Space, obj: Any) -> Future[Any]:
    """A request from another thread."""
    done: Future[Any] = Future()

    def ask() -> None:
        try:
            done.set_result(client.request(obj, timeout=30))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=ask).start()
    return done


def test_future_that_fails_or_is_cancelled_fails_the_request(
    node: str, caplog: pytest.LogCaptureFixture
) -> None:
    def give(asked: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if asked.text == "cancel":
            future.cancel()
        elif asked.text == "int":
            future.set_result(5)
        else:
            future.set_exception(KeyError("no way"))
        return future

    with skerry.connect(node) as server, skerry.connect(node) as client:
        server.serve(Ask, give)
        for text, reason in (
            ("cancel", "its handler was cancelled"),
            ("int", "not int"),
            ("fail", "KeyError: 'no way'"),
        ):
            with pytest.raises(RequestError, match=reason):
                client.request(Ask(text=text))
    assert len(caplog.records) == 2, "who cancels knows"


def test_future_that_is_done_after_the_space_closed_is_ignored(node: str) -> None:
    future: Future[Any] = Future()
    with skerry.connect(node) as client:
        with skerry.connect(node) as server:
            server.serve(Ask, lambda _: future)
            with pytest.raises(RequestTimedOut):
                client.request(Ask(), timeout=0.05)
        future.set_result(Say())
        client.flush()


def test_closed_service_still_answers_received_requests(node: str) -> None:
    future: Future[Any] = Future()
    given = threading.Event()

    def handle(_: Any) -> Future[Any]:
        given.set()
        return future

    with skerry.connect(node) as server, skerry.connect(node) as client:
        service = server.serve(Ask, handle)
        answer = pool_request(client, Ask())
        assert given.wait(30)
        service.close()
        service.close()
        assert service.state == "closed"
        server.flush()
        with pytest.raises(NotRegistered):
            client.request(Ask())
        future.set_result(Say(text="late"))
        assert answer.result(30).text == "late"


def test_many_threads_may_send_requests(node: str) -> None:
    with skerry.connect(node) as server, skerry.connect(node) as client:
        server.serve(Ask, upper)
        answers = [pool_request(client, Ask(text=f"n{n}")) for n in range(3 * REQUEST_WINDOW_COUNT)]
        assert [a.result(30).text for a in answers] == [f"N{n}" for n in range(len(answers))]


def test_request_does_not_wait_longer_than_its_timeout(node: str) -> None:
    future: Future[Any] = Future()
    with skerry.connect(node) as server, skerry.connect(node) as client:
        server.serve(Ask, lambda _: future)
        with pytest.raises(RequestTimedOut, match="no answer to Ask"):
            client.request(Ask(), timeout=0.05)
        future.set_result(Say())
        server.flush()
        client.flush()
        assert len(client._core.connection.requests) == 0


def test_space_that_closes_ends_its_requests(node: str) -> None:
    given = threading.Event()
    with skerry.connect(node) as server:
        client = skerry.connect(node)

        def handle(_: Any) -> Future[Any]:
            given.set()
            return Future()

        server.serve(Ask, handle)
        answer = pool_request(client, Ask())
        assert given.wait(30)
        client.close()
        with pytest.raises(Disconnected, match="the space is closed"):
            answer.result(30)
        with pytest.raises(Disconnected, match="the space is closed"):
            client.request(Ask())


def test_request_waits_for_the_next_connection(running_node: RunningNode) -> None:
    gone = threading.Event()
    with skerry.connect(running_node.place) as server, skerry.connect(running_node.place) as client:
        server.serve(Ask, upper)
        client.on_state(lambda change: gone.set() if change.state == "disconnected" else None)
        running_node.stop()
        assert gone.wait(30)
        with pytest.raises(RequestTimedOut):
            client.request(Ask(text="a"), timeout=0.05)
        back: queue.SimpleQueue[str] = queue.SimpleQueue()
        server.on_state(lambda change: back.put(str(change.state)))
        running_node.start()
        while back.get(timeout=30) != "connected":
            pass
        server.flush()
        assert client.request(Ask(text="a"), timeout=30).text == "A"


def test_sent_request_fails_when_the_node_dies(running_node: RunningNode) -> None:
    given = threading.Event()
    with skerry.connect(running_node.place) as server, skerry.connect(running_node.place) as client:

        def handle(_: Any) -> Future[Any]:
            given.set()
            return Future()

        server.serve(Ask, handle)
        answer = pool_request(client, Ask())
        assert given.wait(30)
        running_node.stop()
        with pytest.raises(Disconnected, match="may have been carried out or not"):
            answer.result(30)


# -- the asyncio space


async def ask_all(client: aio.Space, texts: list[str]) -> list[str]:
    answers = await asyncio.gather(*(client.request(Ask(text=text)) for text in texts))
    return [answer.text for answer in answers]


def test_async_handlers_run_concurrently(node: str) -> None:
    async def talk() -> None:
        async with await aio.connect(node) as server, await aio.connect(node) as client:
            met = asyncio.Barrier(REQUEST_WINDOW_COUNT)

            async def handle(asked: Any) -> Any:
                await met.wait()
                return upper(asked)

            service = await server.serve(Ask, handle)
            assert service.is_held
            texts = [f"n{n}" for n in range(2 * REQUEST_WINDOW_COUNT)]
            assert await ask_all(client, texts) == [text.upper() for text in texts]

    run(talk())


def test_handler_of_a_loop_may_return_an_object_or_an_awaitable(node: str) -> None:
    async def talk() -> None:
        async with await aio.connect(node) as space:
            loop = asyncio.get_running_loop()
            handlers: list[Callable[[Any], Any]] = [
                upper,
                lambda asked: loop.run_in_executor(None, upper, asked),
                partial(later, upper),
                lambda asked: done(upper(asked)),
            ]
            for number, handler in enumerate(handlers):
                await space.serve(Ask, handler, name=str(number))
                answer = await space.request(Ask(text="a"), to=str(number))
                assert answer == Say(text="A")

    run(talk())


async def later(handler: Callable[[Any], Any], asked: Any) -> Any:
    await asyncio.sleep(0)
    return handler(asked)


def done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def test_async_handler_that_fails_fails_the_request(
    node: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def talk() -> None:
        async with await aio.connect(node) as space:

            async def fail(asked: Any) -> Any:
                await asyncio.sleep(0)
                if asked.text == "cancel":
                    raise asyncio.CancelledError
                if asked.text == "int":
                    return 5
                raise ValueError("no way")

            await space.serve(Ask, fail)
            for text, reason in (
                ("cancel", "its handler was cancelled"),
                ("int", "not int"),
                ("fail", "ValueError: no way"),
            ):
                with pytest.raises(RequestError, match=reason):
                    await space.request(Ask(text=text))

    run(talk())
    assert [record.getMessage() for record in caplog.records] == ["a callback failed"] * 2


def test_handler_that_wants_to_exit_ends_the_program_of_the_loop(node: str) -> None:
    def leave(_: Any) -> Any:
        raise SystemExit(3)

    async def talk() -> None:
        space = await aio.connect(node)
        await space.serve(Ask, leave)
        try:
            await space.request(Ask())
        finally:
            await space.close()

    with pytest.raises(SystemExit):
        run(talk())


def test_running_handlers_are_cancelled_when_the_space_closes(node: str) -> None:
    async def talk() -> None:
        given, ended = asyncio.Event(), list[str]()
        async with await aio.connect(node) as client:
            server = await aio.connect(node)

            async def handle(_: Any) -> Any:
                given.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    ended.append("cancelled")

            await server.serve(Ask, handle)
            answer = asyncio.create_task(client.request(Ask(), timeout=0.1))
            await given.wait()
            await server.close()
            assert ended == ["cancelled"]
            with pytest.raises(RequestTimedOut):
                await answer

    run(talk())


def test_handler_may_close_its_own_space(node: str) -> None:
    async def talk() -> None:
        server = await aio.connect(node)
        closed = asyncio.Event()

        async def handle(_: Any) -> Any:
            await server.close()
            closed.set()

        async with await aio.connect(node) as client:
            await server.serve(Ask, handle)
            with pytest.raises(RequestTimedOut):
                await client.request(Ask(), timeout=0.1)
            await closed.wait()
        assert server.state == "closed"

    run(talk())


def test_cancelled_request_is_forgotten(node: str) -> None:
    async def talk() -> None:
        async with await aio.connect(node) as space:
            given = asyncio.Event()

            async def handle(_: Any) -> Any:
                given.set()
                await asyncio.Event().wait()

            await space.serve(Ask, handle)
            asking = asyncio.create_task(space.request(Ask()))
            await given.wait()
            assert len(space._core.connection.requests) == 1
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            assert asking.cancelled()
            assert len(space._core.connection.requests) == 0

    run(talk())
