"""Spans of OpenTelemetry for requests, which cross programs in one trace.

A program that has imported `opentelemetry.trace` gets a span for each request that it sends and for
each one that it answers. The context travels with the request as a `traceparent` of W3C Trace
Context, so that the span of the handler is a child of that of the caller. Programs that do not use
OpenTelemetry do not import it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

_TRACER: Final = "skerry"
_API: Final = "opentelemetry.trace"
_HEADER: Final = "traceparent"


@contextmanager
def sending(type_name: str, handler: str) -> Iterator[str]:
    """The span of a request until its answer; yields the context to send with the request."""
    if _API not in sys.modules:
        yield ""
        return
    from opentelemetry.trace import SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    with _tracer().start_as_current_span(
        f"request {type_name}", kind=SpanKind.CLIENT, attributes=_attributes(type_name, handler)
    ):
        carrier: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carrier)
        yield carrier.get(_HEADER, "")


class HandlingSpan:
    """The span of a request that this program answers, which `end` ends."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def entered(self) -> AbstractContextManager[object]:
        """Make the span the current one, while the handler is called."""
        from opentelemetry.trace import use_span

        return use_span(self._span, record_exception=False, set_status_on_exception=False)

    def end(self, failure: str = "") -> None:
        """End the span; `failure` is why the request failed."""
        from opentelemetry.trace import Status, StatusCode

        if failure:
            self._span.set_status(Status(StatusCode.ERROR, failure))
        self._span.end()


def handling(type_name: str, handler: str, trace: str) -> HandlingSpan | None:
    """The span of a received request, as a child of that of its caller; None without spans."""
    if _API not in sys.modules:
        return None
    from opentelemetry.trace import SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    # An invalid context begins a new trace.
    context = TraceContextTextMapPropagator().extract({_HEADER: trace} if trace else {})
    span = _tracer().start_span(
        f"handle {type_name}",
        context,
        kind=SpanKind.SERVER,
        attributes=_attributes(type_name, handler),
    )
    return HandlingSpan(span)


def _tracer() -> Tracer:
    from opentelemetry.trace import get_tracer

    return get_tracer(_TRACER)


def _attributes(type_name: str, handler: str) -> dict[str, str]:
    return {"rpc.system": "skerry", "rpc.service": type_name, "rpc.method": handler}
