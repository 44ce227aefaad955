"""Decodes the overview of a distributor, as monitoring programs do."""

from __future__ import annotations

import struct

from skerry.errors import DecodeError
from skerry.protocol.distributor.overview import OVERVIEW, Overview
from skerry.protocol.distributor.wire import Reader

COUNTS = struct.Struct(">7i")


def read_overview(data: bytes) -> Overview:
    """Decode a datagram; DecodeError if it is not an overview."""
    reader = Reader(data, 0)
    if reader.number(4) != OVERVIEW:
        raise DecodeError(type_name="overview", detail="another kind of message", offset=0)
    application = reader.text()
    distributor_id = int.from_bytes(reader.take(8), "big", signed=True)
    start_time, address, host = reader.text(), reader.text(), reader.text()
    counts = COUNTS.unpack(reader.take(COUNTS.size))
    reader.finish()
    return Overview(
        application=application,
        distributor_id=distributor_id,
        start_time=start_time,
        address=address,
        host=host,
        tcp_port=counts[0],
        publisher_count=counts[1],
        subscriber_count=counts[2],
        connection_count=counts[3],
        requests_sent_count=counts[4],
        requests_received_count=counts[5],
        subscription_count=counts[6],
    )
