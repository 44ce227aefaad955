"""The loops that run for every message: encoding and decoding of objects, frame after frame.

In the uncompiled build the classes are those of `codec.uncompiled`. Where a C compiler is
available, Cython compiles `hot_loops.pyx`, and the extension replaces this module under the same
name. No other module knows which of the two is in use; tests run both and compare. Cython and not
mypyc, because a class that mypyc compiles can neither reach the slots of a Python class nor reuse
an event object that the callback did not keep, and these two took most of the time of these loops.

Neighbouring frames often have the same header except for its times. One call handles a whole run of
them: it delivers (`FrameDelivery`) or forwards (`AlikeFrames`) frames up to the first that differs,
and leaves that one to the caller.
"""

from __future__ import annotations

from skerry.codec.uncompiled.alike_frames import AlikeFrames
from skerry.codec.uncompiled.delivery import (
    DeliveredHeader,
    FrameDelivery,
    ObjectState,
    ReceivedUpdate,
)
from skerry.codec.uncompiled.frames import Frames, PublishPath, Template, WaitingFrames
from skerry.codec.uncompiled.known_headers import KnownHeader, KnownHeaders, RouteVersion
from skerry.codec.uncompiled.layout import StructLayout
from skerry.codec.uncompiled.relay import ForwardedHeader, FrameRelay

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
