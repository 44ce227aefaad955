"""A node that records itself: a client inside its program, by the protocol that all clients speak.

There is no socket between the two, so nothing is ever lost on the way. Rows are made in the turn
after the one in which the node wrote, and a thread brings them to the disk.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

from skerry.apps.node.in_process_stream import InsideStream
from skerry.apps.node.recording_config import NodeRecordingConfig
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
from skerry.protocol.access.connection import ConnectionStage
from skerry.protocol.access.header import Header, read_header
from skerry.protocol.access.wire import Wire
from skerry.runtime.clock import monotonic_ns, wall_ns
from skerry.runtime.recordings.writer import RecordingWriter
from skerry.runtime.streams.node_server import NodeServer

__all__ = ["NodeRecorder"]

_AGAIN_S: Final = 1.0
"""When to come back after the node has ended it, which it has no reason to."""

log = logging.getLogger(__name__)


class NodeRecorder:
    """Records a node from inside."""

    def __init__(self, server: NodeServer, config: NodeRecordingConfig, *, space: str) -> None:
        """RecordingError when the folder cannot be written to."""
        self._server = server
        self._batch_s = config.batch_ms / 1000
        writer = RecordingWriter(Path(config.folder), config, space=space)
        self._queue = RowQueue(
            space=space,
            row_count_max=config.batch_rows,
            waiting_bytes_max=config.queue_bytes_max,
        )
        self._writing = WritingThread(self._queue, writer, tell=log.warning)
        self._witness = GapTracker(self._queue, space=space, is_whole=True)
        self._witness.intake.on_service = self._served
        if writer.resume_point is not None:
            self._witness.go_on(writer.resume_point)
        self._loop = asyncio.get_running_loop()
        self._stream: _Stream | None = None
        self._turning: asyncio.Handle | None = None
        self._timers: dict[str, asyncio.Handle] = {}
        self._is_closing = False

    @property
    def trouble(self) -> str:
        """Why nothing is written at this moment; empty when it is."""
        return self._writing.trouble

    @property
    def taken_count(self) -> int:
        """Updates that came."""
        return int(self._witness.intake.taken_count)

    def start(self) -> None:
        """Begin to record."""
        self._writing.start()
        self._open()
        self._beat()

    async def close(self) -> None:
        """Write and seal what there is; RecordingError if that cannot be done."""
        self._is_closing = True
        for timer in self._timers.values():
            timer.cancel()
        # Confirmed updates may still be delayed for a batch (`node.batch_delay_ms`).
        self._server.send_delayed()
        self._turn()
        if self._stream is not None:
            self._stream.close()
        self._witness.end()
        self._queue.close()
        await self._loop.run_in_executor(None, self._writing.stop)

    # -- what the node tells

    def said(self, stream: InsideStream) -> None:
        """The node wrote something: it is taken up when all others had their turn."""
        if stream is self._stream and self._turning is None and not self._is_closing:
            self._turning = self._loop.call_soon(self._turn)

    def ended(self, stream: InsideStream) -> None:
        """The node ended the stream."""
        if stream is self._stream:
            self._stream = None
            if not self._is_closing:
                log.warning("the node ended its own recording, which begins anew")
                self._witness.lost()
                self._timers["again"] = self._loop.call_later(_AGAIN_S, self._open)

    # -- inside

    def _open(self) -> None:
        self._stream = stream = _Stream(self, self._server)
        stream.address = self._server.opened(stream, Wire(), INSIDE, True)

    def _beat(self) -> None:
        """Rows do not wait for their batch to be full."""
        self._queue.hand_over()
        self._timers["beat"] = self._loop.call_later(self._batch_s, self._beat)

    def _turn(self) -> None:
        if self._turning is not None:
            self._turning.cancel()
            self._turning = None
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
            elif self._witness.intake.take_frames(cutter):
                break
            header, size = read_header(cutter.body(), 0)
            self._understand(stream, header, cutter.body()[size:])

    def _understand(self, stream: _Stream, header: Header, payload: bytes) -> None:
        client, now_s = stream.client, wall_ns() / 1e9
        if isinstance(client.understand(header, payload, now_s), Accepted):
            for group in EVERYTHING:
                client.join(group, now_s)
        output = client.take_output()
        if output and stream.address is not None:
            self._server.core.receive(output, stream.address, monotonic_ns())
            self._server.carry()

    def _served(self, header: Header, payload: bytes) -> None:
        self._witness.served(header, payload)
        if header.type_name == "DotsCacheInfo" and self._witness.has_former:
            message = internal_class("DotsCacheInfo").decode(payload)
            if message.endTransmission and message.typeName == EVERYTHING[0]:
                self._witness.told_all()


class _Stream(InsideStream):
    """The stream, and the client at its end."""

    def __init__(self, recorder: NodeRecorder, server: NodeServer) -> None:
        super().__init__(recorder, server)
        # No secret and no chance: who is inside the node is not asked.
        self.client = ClientConnection(
            Wire(),
            name="skerry-record",
            cnonce="",
            wants_preload=False,
            extensions=EXTENSION_SUBJECTS | EXTENSION_ORIGIN,
        )
