"""`skerry request`, on a real node with a program that answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import skerry

Run = Callable[..., Any]

TYPES = skerry.define_types(
    "struct Ask [cached=false] { 1: string text; 2: int32 number; }"
    " struct Answer [cached=false] { 1: string text; }"
)


@pytest.fixture
def program(node: Any) -> Iterator[None]:
    def handle(ask: Any) -> Any:
        if ask.text == "fail":
            raise ValueError("no such port")
        return None if ask.text == "nothing" else TYPES.Answer(text=f"{ask.text} {ask.number}")

    with skerry.connect(node.place, name="answering") as space:
        space.serve(TYPES.Ask, handle)
        space.serve(TYPES.Ask, lambda _ask: TYPES.Answer(text="named"), name="router")
        yield


def test_the_answer_is_printed(run: Run, program: None) -> None:
    assert run("request", "Ask", "text=a b", "number=7").out == 'Answer{ .text = "a b 7" }\n'
    done = run("request", "Ask", "--to", "router", "--json")
    assert json.loads(done.out) == {"text": "named", "_type": "Answer"}
    done = run("request", "Ask", "--data", '{"text": "x", "number": 1}')
    assert done.out == 'Answer{ .text = "x 1" }\n'


def test_no_object_is_an_answer(run: Run, program: None) -> None:
    done = run("request", "Ask", "text=nothing")
    assert (done.code, done.out) == (0, "")
    assert "the handler returned no object" in done.err
    assert run("request", "Ask", "text=nothing", "-j").out == "null\n"


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("Ask", "text=fail"), 1, "Ask failed: "),
        (("Ask", "--to", "rooter"), 1, "no program serves Ask as rooter"),
        (("Assk",), 1, "did you mean Ask?"),
        (("Ask", "number=x"), 2, "'FIELD=VALUE': Ask.number: expected int32"),
        (("Ask", "txt=x"), 2, "did you mean text?"),
        (("Ask", "text"), 2, "does not have the form FIELD=VALUE"),
        (("Ask", "text=x", "--data", "{}"), 2, "--data and FIELD=VALUE exclude each other"),
        (("Ask", "--data", "{"), 2, "'--data': Ask: not JSON"),
        (("Ask", "--timeout", "0"), 2, "'--timeout'"),
    ],
)
def test_mistakes_are_reported(
    run: Run, program: None, arguments: tuple[str, ...], code: int, complaint: str
) -> None:
    done = run("request", *arguments)
    assert complaint in done.err
    assert (done.code, done.out) == (code, "")


def test_a_missing_answer_is_no_fault_of_the_node(run: Run, node: Any) -> None:
    from concurrent.futures import Future

    pending: Future[Any] = Future()
    with skerry.connect(node.place) as space:
        space.serve(TYPES.Ask, lambda _ask: pending)
        done = run("request", "Ask", "--timeout", "0.1")
        pending.set_result(None)
    assert done.code == 1
    assert "no answer to Ask" in done.err
    assert "raise --timeout" in done.err
