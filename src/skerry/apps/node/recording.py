"""A node that records itself, by a client inside its process that uses the normal client protocol.

There is no socket between node and client, so no update is lost. Rows are made in the turn of the
loop after the node wrote, and a thread writes them to disk.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

from skerry.apps.node.config import NodeRecordingConfig
from skerry.apps.node.in_process_stream import InProcessStream
from skerry.apps.recorder.gap_tracker import GapTracker
from skerry.apps.recorder.node_source import EVERYTHING
from skerry.apps.recorder.row_queue import RowQueue
from skerry.apps.recorder.writing_thread import WritingThread
from skerry.engine.admission.origins import INSIDE
from skerry.objects.internal import internal_class
from skerry.protocol.access.client import (
    EXTENSION_ORIGIN,
    EXTENSION_SUBJECTS,
    Accepted,
    ClientConnection,
)
from skerry.protocol.access.handshake import ConnectionStage
from skerry.protocol.access.header import Header, read_header
from skerry.protocol.access.wire import Wire
from skerry.runtime.clock import monotonic_ns, wall_ns
from skerry.runtime.recordings.writer import RecordingWriter
from skerry.runtime.streams.node_server import NodeServer

_REOPEN_S: Final = 1.0
"""Pause before the client reconnects if the node closed its stream, which is not expected."""

log = logging.getLogger(__name__)


class NodeRecorder:
    """Records a node from inside its process."""

    def __init__(self, server: NodeServer, config: NodeRecordingConfig, *, space: str) -> None:
        """RecordingError if the folder cannot be written to."""
        self._server = server
        self._batch_s = config.batch_ms / 1000
        writer = RecordingWriter(Path(config.folder), config, space=space)
        self._queue = RowQueue(
            space=space, row_count_max=config.batch_rows, waiting_bytes_max=config.queue_bytes_max
        )
        self._writing = WritingThread(self._queue, writer, report=log.warning)
        self._gaps = GapTracker(self._queue, space=space, is_whole=True)
        self._gaps.intake.on_service = self._served
        if writer.resume_point is not None:
            self._gaps.resume_after(writer.resume_point)
        self._loop = asyncio.get_running_loop()
        self._stream: _Stream | None = None
        self._reading: asyncio.Handle | None = None
        self._timers: dict[str, asyncio.Handle] = {}
        self._is_closing = False

    @property
    def trouble(self) -> str:
        """Why writing fails at present; empty if it works."""
        return self._writing.trouble

    @property
    def received_count(self) -> int:
        return int(self._gaps.intake.received_count)

    def start(self) -> None:
        self._writing.start()
        self._open()
        self._hand_over()

    async def close(self) -> None:
        """Write and seal all rows; RecordingError if that fails."""
        self._is_closing = True
        for timer in self._timers.values():
            timer.cancel()
        # Confirmed updates may still be delayed for a batch (`node.batch_delay_ms`).
        self._server.send_delayed()
        self._read()
        if self._stream is not None:
            self._stream.close()
        self._gaps.end()
        self._queue.close()
        await self._loop.run_in_executor(None, self._writing.stop)

    # -- called by the in-process stream

    def data_written(self, stream: InProcessStream) -> None:
        """The node wrote to the stream; read it in the next turn of the loop."""
        if stream is self._stream and self._reading is None and not self._is_closing:
            self._reading = self._loop.call_soon(self._read)

    def stream_closed(self, stream: InProcessStream) -> None:
        """The node closed the stream; reconnect after a pause."""
        if stream is self._stream:
            self._stream = None
            if not self._is_closing:
                log.warning("the node closed its own recording, which is restarted")
                self._gaps.connection_lost()
                self._timers["reopen"] = self._loop.call_later(_REOPEN_S, self._open)

    def _open(self) -> None:
        self._stream = stream = _Stream(self, self._server)
        stream.address = self._server.opened(stream, Wire(), INSIDE, True)

    def _hand_over(self) -> None:
        """Hand over rows at intervals, even if their batch is not full."""
        self._queue.hand_over()
        self._timers["hand over"] = self._loop.call_later(self._batch_s, self._hand_over)

    def _read(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None
        stream = self._stream
        if stream is None or not stream.waiting:
            return
        client = stream.client
        cutter = client.wire.cutter
        cutter.load(b"".join(stream.waiting))
        stream.waiting.clear()
        while not client.is_over:
            if client.stage is ConnectionStage.CONNECTING:
                if not cutter.step():
                    break
            elif self._gaps.intake.take_frames(cutter):
                break
            header, size = read_header(cutter.body(), 0)
            self._process(stream, header, cutter.body()[size:])

    def _process(self, stream: _Stream, header: Header, payload: bytes) -> None:
        client, now_s = stream.client, wall_ns() / 1e9
        if isinstance(client.understand(header, payload, now_s), Accepted):
            for group in EVERYTHING:
                client.join(group, now_s)
        output = client.take_output()
        if output and stream.address is not None:
            self._server.core.receive(output, stream.address, monotonic_ns())
            self._server.carry()

    def _served(self, header: Header, payload: bytes) -> None:
        self._gaps.learn_type(header, payload)
        if header.type_name == "DotsCacheInfo" and self._gaps.has_previous:
            message = internal_class("DotsCacheInfo").decode(payload)
            if message.endTransmission and message.typeName == EVERYTHING[0]:
                self._gaps.finish_snapshot()


class _Stream(InProcessStream):
    """The in-process stream and its client connection."""

    def __init__(self, recorder: NodeRecorder, server: NodeServer) -> None:
        super().__init__(recorder, server)
        # No secret and no nonce: the node does not authenticate in-process clients.
        self.client = ClientConnection(
            Wire(),
            name="skerry-record",
            cnonce="",
            wants_preload=False,
            extensions=EXTENSION_SUBJECTS | EXTENSION_ORIGIN,
        )
