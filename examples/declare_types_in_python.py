"""Types without type files: declare them as classes, use their objects, and print their text."""

from __future__ import annotations

import skerry


class Kind(skerry.Enum):
    """The kind of a vessel."""

    cargo = 1
    tanker = skerry.element(2, value=80, documentation="Liquids only.")


@skerry.struct(substruct_only=True)
class Position(skerry.Struct):
    """A position in degrees."""

    lat: float | None = skerry.field(1)
    lon: float | None = skerry.field(2)


@skerry.struct(persistent=True)
class Vessel(skerry.Struct):
    """A vessel in sight."""

    mmsi: skerry.uint32 | None = skerry.key(1, documentation="Maritime radio identity.")
    name: str | None = skerry.field(2)
    kind: Kind | None = skerry.field(3, default=Kind.cargo)
    position: Position | None = skerry.field(4)
    seen: skerry.timepoint | None = skerry.field(5)

    def is_north_of(self, lat: float) -> bool:
        return self.position is not None and (self.position.lat or 0.0) > lat


def main() -> None:
    vessel = Vessel(
        mmsi=244660000,
        name="Aurora",
        position=Position(lat=52.1, lon=4.3),
        seen=skerry.to_timepoint("2026-11-15T14:03:07Z"),
    )
    data = vessel.encode()
    print(f"{vessel}\n  is {len(data)} bytes: {data.hex(' ')}\n  and as JSON {vessel.to_json()}")

    decoded = Vessel.decode(data)
    print(f"the decoded object is equal: {decoded == vessel}")
    print(f"it is north of Rotterdam: {decoded.is_north_of(51.9)}")

    update = Vessel(mmsi=244660000, position=Position(lat=52.2, lon=4.3), kind=None)
    print(f"after an update of its position:\n  {skerry.merge(decoded, update)}")

    try:
        Vessel(mmsi=-1).encode()
    except skerry.EncodeError as error:
        print(f"an invalid value is rejected: {error}")

    print(f"the same types in the type language:\n\n{skerry.to_dots(Vessel)}")


if __name__ == "__main__":
    main()
