"""The classes of `codec.hot_loops` in Python, complete and slow, to compare the compiled ones with.

The uncompiled build itself remembers no headers, so it has only a part of them.

layout         encodes, decodes and checks objects of one struct
frames         frames that wait to be sent, and the path of a published object to them
alike_frames   forwards a run of frames that differ only in their times
known_headers  finds headers that were received before by their bytes
relay          forwards frames with known headers, for the node
delivery       delivers frames with known headers to callbacks, for the client
"""

from __future__ import annotations

from tests.unit.codec.reference.alike_frames import AlikeFrames
from tests.unit.codec.reference.delivery import (
    DeliveredHeader,
    FrameDelivery,
    ObjectState,
    ReceivedUpdate,
)
from tests.unit.codec.reference.frames import Frames, PublishPath, Template, WaitingFrames
from tests.unit.codec.reference.known_headers import KnownHeader, KnownHeaders, RouteVersion
from tests.unit.codec.reference.layout import StructLayout
from tests.unit.codec.reference.relay import ForwardedHeader, FrameRelay

__all__ = [
    "AlikeFrames",
    "DeliveredHeader",
    "ForwardedHeader",
    "FrameDelivery",
    "FrameRelay",
    "Frames",
    "KnownHeader",
    "KnownHeaders",
    "ObjectState",
    "PublishPath",
    "ReceivedUpdate",
    "RouteVersion",
    "StructLayout",
    "Template",
    "WaitingFrames",
]
