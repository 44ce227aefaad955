"""Publishes and subscribes in one program, with asyncio."""

import asyncio

from fleet import Vessel

import skerry.aio


async def sail(space: skerry.aio.Space) -> None:
    for step in range(10):
        space.publish(Vessel(mmsi=265000001, name="Corona", lat=57.0 + step / 100))
        await asyncio.sleep(0.05)


async def main() -> None:
    async with await skerry.aio.connect(name="both") as space:
        sailing = asyncio.create_task(sail(space))
        async for event in space.subscribe(Vessel, where="mmsi = 265000001"):
            print(event.object.lat)
            if event.object.lat > 57.08:
                break
        await sailing


skerry.aio.run(main())
