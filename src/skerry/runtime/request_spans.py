"""Spans of OpenTelemetry for requests, which cross programs in one trace.

A program that has imported `opentelemetry.trace` gets a span for each request that it sends and for
each one that it answers. The context travels with the request as a `traceparent` of W3C Trace
Context, so that the span of the handler is a child of that of the caller. The modules of
OpenTelemetry are loaded by name: programs that do not use it do not import it, and the compiler of
this package does not need its types.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Any, Final

_TRACER: Final = "skerry"
_API: Final = "opentelemetry.trace"
_HEADER: Final = "traceparent"


@contextmanager
def sending(type_name: str, handler: str) -> Iterator[str]:
    """The span of a request until its answer; yields the context to send with the request."""
    if _API not in sys.modules:
        yield ""
        return
    api = import_module(_API)
    attributes = _attributes(type_name, handler)
    with api.get_tracer(_TRACER).start_as_current_span(
        f"request {type_name}", kind=api.SpanKind.CLIENT, attributes=attributes
    ):
        carrier: dict[str, str] = {}
        _propagator().inject(carrier)
        yield carrier.get(_HEADER, "")


class HandlingSpan:
    """The span of a request that this program answers, which `end` ends."""

    def __init__(self, span: Any) -> None:
        self._span = span

    def entered(self) -> AbstractContextManager[object]:
        """Make the span the current one, while the handler is called."""
        entered: AbstractContextManager[object] = import_module(_API).use_span(
            self._span, record_exception=False, set_status_on_exception=False
        )
        return entered

    def end(self, failure: str = "") -> None:
        """End the span; `failure` is why the request failed."""
        if failure:
            api = import_module(_API)
            self._span.set_status(api.Status(api.StatusCode.ERROR, failure))
        self._span.end()


def handling(type_name: str, handler: str, trace: str) -> HandlingSpan | None:
    """The span of a received request, as a child of that of its caller; None without spans."""
    if _API not in sys.modules:
        return None
    api = import_module(_API)
    # An invalid context begins a new trace.
    context = _propagator().extract({_HEADER: trace} if trace else {})
    span = api.get_tracer(_TRACER).start_span(
        f"handle {type_name}",
        context,
        kind=api.SpanKind.SERVER,
        attributes=_attributes(type_name, handler),
    )
    return HandlingSpan(span)


def _propagator() -> Any:
    """Reads and writes contexts as W3C Trace Context."""
    module = import_module("opentelemetry.trace.propagation.tracecontext")
    return module.TraceContextTextMapPropagator()


def _attributes(type_name: str, handler: str) -> dict[str, str]:
    return {"rpc.system": "skerry", "rpc.service": type_name, "rpc.method": handler}
