"""Headers one after another, most of which are like the one before but for their times."""

from __future__ import annotations

from skerry.protocol.access.header import NEVER, Header, read_header
from skerry.protocol.access.header_repeats import HeaderRepeat

__all__ = ["HeaderReader"]


class HeaderReader:
    """Reads the headers that objects of one way come with."""

    def __init__(self) -> None:
        self._repeat: HeaderRepeat | None = None
        self._last_name = ""

    def read(self, data: bytes) -> tuple[Header, int]:
        """The header at the beginning, and where its object begins; DecodeError if there is none.

        It is not to be changed, and good until the next call.
        """
        repeat = self._repeat
        if repeat is not None and repeat.fits(data, 0, len(data)):
            header = repeat.header
            header.sent_time = repeat.sent_time(data, 0)
            header.server_sent_time = repeat.server_sent_time(data, 0)
            # What stands for no time is not one that could be sent: it is refused below.
            if header.sent_time != NEVER:
                return header, int(repeat.size)
        header, size = read_header(data, 0)
        self._note(data, size, header)
        return header, size

    def _note(self, data: bytes, size: int, header: Header) -> None:
        """Remember a header that may come again; of types that take turns it would not pay."""
        if header.type_name != self._last_name:
            self._last_name = header.type_name
            return
        repeat = HeaderRepeat(data, size, header)
        if repeat.is_usable:
            self._repeat = repeat
