"""Reads a sequence of headers, most of which differ from the one before only in their times."""

from __future__ import annotations

from skerry.protocol.access.header import NEVER, Header, read_header
from skerry.protocol.access.header_repeats import HeaderRepeat


class HeaderReader:
    """Reads the headers of the updates of one stream or group."""

    def __init__(self) -> None:
        self._repeat: HeaderRepeat | None = None
        self._last_name = ""

    def read(self, data: bytes) -> tuple[Header, int]:
        """The header at the beginning, and the offset of the object after it.

        The caller must not change the header, and may use it until the next call. Raises
        DecodeError if there is no valid header.
        """
        repeat = self._repeat
        if repeat is not None and repeat.fits(data, 0, len(data)):
            header = repeat.header
            header.sent_time = repeat.sent_time(data, 0)
            header.server_sent_time = repeat.server_sent_time(data, 0)
            # NEVER is not a valid time on the wire: `read_header` raises DecodeError for it.
            if header.sent_time != NEVER:
                return header, int(repeat.size)
        header, size = read_header(data, 0)
        self._note(data, size, header)
        return header, size

    def _note(self, data: bytes, size: int, header: Header) -> None:
        """Remember a header if its type is the same as before; otherwise it would not pay."""
        if header.type_name != self._last_name:
            self._last_name = header.type_name
            return
        repeat = HeaderRepeat(data, size, header)
        if repeat.is_usable:
            self._repeat = repeat
