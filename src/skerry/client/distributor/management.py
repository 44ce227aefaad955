"""The statistics of a connection: an overview by multicast, a page of JSON, and lines in a log.

The overview has the format of the Java program, so that its viewers show it. The page is for
programs: `GET /` returns the statistics as one JSON object.
"""

from __future__ import annotations

import logging
import threading
from datetime import datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Final

from skerry.client.distributor.group_session import GroupSession
from skerry.client.distributor.report import Reporter
from skerry.errors import ConfigError, ConnectFailed
from skerry.protocol.distributor.overview import Overview, shortened
from skerry.protocol.machine import Address
from skerry.runtime.clock import monotonic_ns, wall_ns
from skerry.runtime.streams.web_origins import host_fault, own_names
from skerry.runtime.udp.interfaces import parse_group
from skerry.runtime.udp.multicast import MulticastSocket

_MS: Final = 1_000_000
_REQUEST_S_MAX: Final = 5.0

log = logging.getLogger(__name__)


class Management:
    """Periodic work besides the protocol; the thread or loop that drives the session calls it."""

    def __init__(self, session: GroupSession) -> None:
        """Raises ConfigError or ConnectFailed if the page or the overview cannot be opened."""
        config = session.config
        now_ns = monotonic_ns()
        self.reporter = Reporter(session, now_ns)
        self._session = session
        self._log_ns = now_ns + config.statistics_interval_ms * _MS
        self._overview_ns = now_ns
        self._overviews: MulticastSocket | None = None
        self._page: StatisticsPage | None = None
        if config.management_listen:
            self._page = StatisticsPage(config.management_listen, self.reporter)
        if config.management_group:
            try:
                self._overviews = MulticastSocket(
                    Address(*parse_group(config.management_group)),
                    interface=config.interface,
                    loopback=config.loopback,
                )
            except BaseException:
                self.close()
                raise
        self.due_ns = self._next_ns()
        """When `advance` has something to do."""

    @property
    def page_port(self) -> int:
        """The port of the page; 0 if there is none."""
        return self._page.port if self._page is not None else 0

    def _next_ns(self) -> int:
        due_ns = self.reporter.due_ns
        if self._session.config.statistics_interval_ms:
            due_ns = min(due_ns, self._log_ns)
        if self._overviews is not None:
            due_ns = min(due_ns, self._overview_ns)
        return due_ns

    def advance(self, now_ns: int) -> None:
        self.reporter.note(now_ns, wall_ns())
        config = self._session.config
        if config.statistics_interval_ms and now_ns >= self._log_ns:
            self._log_ns = now_ns + config.statistics_interval_ms * _MS
            self._log_statistics()
        if self._overviews is not None and now_ns >= self._overview_ns:
            self._overview_ns = now_ns + config.management_interval_ms * _MS
            self._send_overview(self._overviews)
        self.due_ns = self._next_ns()

    def close(self) -> None:
        if self._overviews is not None:
            self._overviews.close()
        if self._page is not None:
            self._page.close()

    def _log_statistics(self) -> None:
        statistics = self.reporter.statistics()
        file = self._session.config.statistics_file
        if not file:
            log.info("distributor statistics", extra={"statistics": statistics.to_json()})
            return
        try:
            with Path(file).open("a", encoding="utf-8") as stream:
                stream.write(statistics.to_json() + "\n")
        except OSError as error:
            facts = {"file": file, "reason": error.strerror}
            log.warning("statistics cannot be written", extra=facts)

    def _send_overview(self, overviews: MulticastSocket) -> None:
        session = self._session
        with session.lock:
            counters = session.machine.statistics()
            identity = session.machine.identity
        started = datetime.fromtimestamp(identity.start_ms / 1000).astimezone()
        overview = Overview(
            application=shortened(session.config.application),
            distributor_id=identity.start_ms << 16 | identity.sender_id & 0xFFFF,
            start_time=started.strftime("%H:%M:%S.%f")[:-3],
            address=session.driver.socket.interface.address,
            host=shortened(session.config.host),
            tcp_port=self.page_port,
            publisher_count=counters.publisher_count,
            subscriber_count=session.router.subscriber_count,
            connection_count=1,
            requests_sent_count=counters.requests_sent_count & 0x7FFFFFFF,
            requests_received_count=counters.requests_received_count & 0x7FFFFFFF,
            subscription_count=counters.subscription_count,
        )
        try:
            overviews.send_all([overview.encode()])
        except OSError as error:
            facts = {"group": str(overviews.group), "reason": error.strerror}
            log.warning("an overview cannot be sent", extra=facts)


class StatisticsPage:
    """Serves the statistics of a connection by HTTP, one request at a time."""

    def __init__(self, address: str, reporter: Reporter) -> None:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65_535:
            raise ConfigError(
                key="distributor.management_listen",
                origin=repr(address),
                detail="it is not of the form ADDRESS:PORT",
                hint="127.0.0.1:0 uses any free port",
            )

        class Request(_Request):
            statistics = reporter

        try:
            self._server = HTTPServer((host, int(port)), Request)
        except OSError as error:
            text = f"cannot serve statistics at {address}: {error.strerror or error}"
            raise ConnectFailed(text) from None
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            args=(0.05,),
            name=f"statistics {address}",
            daemon=True,
        )
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Request(BaseHTTPRequestHandler):
    timeout = _REQUEST_S_MAX
    statistics: Reporter

    def do_GET(self) -> None:
        fault = host_fault(self.headers.get_all("Host") or (), own_names())
        if fault is not None:
            self.send_error(403, fault)
            return
        if self.path not in ("/", "/statistics.json"):
            self.send_error(404, "there is only /")
            return
        body = self.statistics.statistics().to_json().encode() + b"\n"
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        log.debug("a request for statistics", extra={"request": format % args})
