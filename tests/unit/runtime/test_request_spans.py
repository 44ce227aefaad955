"""Spans of requests: one trace from caller to handler, and nothing without OpenTelemetry."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import skerry
from skerry.errors import RequestError
from skerry.runtime import request_spans


@skerry.struct(cached=False)
class RouteRequest(skerry.Struct):
    """A request for a route."""

    to: str | None = skerry.field(1)


EXPORTER = InMemorySpanExporter()


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    """The ended spans of this process."""
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        # A process has one provider, which cannot be replaced.
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
        trace.set_tracer_provider(provider)
    EXPORTER.clear()
    yield EXPORTER
    EXPORTER.clear()


def named(spans: InMemorySpanExporter, name: str) -> ReadableSpan:
    (found,) = [span for span in spans.get_finished_spans() if span.name == name]
    return found


def test_a_request_across_programs_is_one_trace(live_node: Any, spans: Any) -> None:
    def handle(request: RouteRequest) -> RouteRequest:
        # What the handler does is part of the trace too.
        with trace.get_tracer("test").start_as_current_span("look at the chart"):
            return request

    with skerry.connect(live_node.place) as server, skerry.connect(live_node.place) as client:
        server.serve(RouteRequest, handle, name="router")
        with trace.get_tracer("test").start_as_current_span("plan a voyage") as root:
            client.request(RouteRequest(to="Skagen"), to="router")
    sent, handled = named(spans, "request RouteRequest"), named(spans, "handle RouteRequest")
    inner = named(spans, "look at the chart")
    assert sent.parent is not None
    assert handled.parent is not None
    assert inner.parent is not None
    assert sent.parent.span_id == root.get_span_context().span_id
    assert handled.parent.span_id == sent.context.span_id
    assert inner.parent.span_id == handled.context.span_id
    assert {s.context.trace_id for s in (sent, handled, inner)} == {
        root.get_span_context().trace_id
    }
    assert handled.attributes == {
        "rpc.system": "skerry",
        "rpc.service": "RouteRequest",
        "rpc.method": "router",
    }


def test_a_span_lasts_until_the_future_of_a_handler_is_done(live_node: Any, spans: Any) -> None:
    with (
        ThreadPoolExecutor(1) as workers,
        skerry.connect(live_node.place) as server,
        skerry.connect(live_node.place) as client,
    ):
        server.serve(RouteRequest, lambda request: workers.submit(lambda: request))
        client.request(RouteRequest(to="Skagen"))
    sent, handled = named(spans, "request RouteRequest"), named(spans, "handle RouteRequest")
    assert handled.parent is not None
    assert handled.parent.span_id == sent.context.span_id
    assert handled.end_time is not None


def test_failures_are_in_both_spans(live_node: Any, spans: Any) -> None:
    def fail(request: RouteRequest) -> None:
        raise ValueError(f"no way to {request.to}")

    with skerry.connect(live_node.place) as server, skerry.connect(live_node.place) as client:
        server.serve(RouteRequest, fail)
        with pytest.raises(RequestError):
            client.request(RouteRequest(to="Atlantis"))
    for name in ("request RouteRequest", "handle RouteRequest"):
        status = named(spans, name).status
        assert status.status_code is trace.StatusCode.ERROR
        assert "no way to Atlantis" in (status.description or "")


def test_an_invalid_context_begins_a_new_trace(spans: Any) -> None:
    span = request_spans.handling("RouteRequest", "", "00-not-a-context")
    assert span is not None
    span.end()
    assert named(spans, "handle RouteRequest").parent is None


def test_a_program_without_opentelemetry_does_not_import_it() -> None:
    program = """
import sys
import skerry.runtime.request_spans as request_spans
with request_spans.sending("RouteRequest", "") as context:
    assert context == ""
assert request_spans.handling("RouteRequest", "", context) is None
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""
    subprocess.run([sys.executable, "-c", program], check=True)
