"""Updates to play, and playing them to a target."""

from __future__ import annotations

import asyncio
from typing import Any

import skerry
from skerry.apps.replayer.targets import ReplayTarget
from skerry.codec.envelope import CREATE, Update
from skerry.objects.base import codec_of
from skerry.objects.internal import internal_class
from skerry.schema.fingerprint import fingerprint

__all__ = ["SENT_NS", "TYPES", "data", "play", "update", "vessel"]

TYPES = skerry.define_types(
    """
    enum Kind { 1: tug }
    struct Vessel { 1: [key] uint32 mmsi; 2: string name; 3: uint32 speed; 4: Kind kind; }
    """
)
SENT_NS = 1_700_000_000_250_000_000


def update(obj: Any, operation: int = CREATE, **changes: Any) -> Update:
    codec = codec_of(type(obj))
    payload = obj.encode()
    facts = {
        "type_name": obj.descriptor.name,
        "subject": f"/Vessel/{getattr(obj, 'mmsi', '')}",
        "operation": operation,
        "present": int(obj.attributes),
        "key": codec.key_of(codec.split(payload)),
        "payload": payload,
        "fingerprint": fingerprint(obj.descriptor),
        "time_ns": SENT_NS + 5,
        "sent_ns": SENT_NS,
    }
    return Update(**{**facts, **changes})


def vessel(mmsi: int, **fields: Any) -> Any:
    return TYPES.Vessel(mmsi=mmsi, **fields)


def data(content: bytes, subject: str) -> Update:
    return update(internal_class("SkerryBytes")(data=content), subject=subject)


def play(target: ReplayTarget, *updates: Update | None) -> None:
    """Plays updates; None begins another round."""

    async def run() -> None:
        await target.open()
        try:
            for item in updates:
                if item is None:
                    await target.begin_round()
                    continue
                known = {fingerprint(TYPES.Vessel.descriptor): TYPES.Vessel.descriptor}
                bytes_type = internal_class("SkerryBytes").descriptor
                known[fingerprint(bytes_type)] = bytes_type
                client = internal_class("DotsClient").descriptor
                known[fingerprint(client)] = client
                await target.play(item, known.get(item.fingerprint))
        finally:
            await target.close()

    asyncio.run(run())
