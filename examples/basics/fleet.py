"""The types of these examples. Each program imports them; a type file would do as well."""

import skerry


@skerry.struct
class Vessel(skerry.Struct):
    """A vessel under way."""

    mmsi: skerry.uint32 | None = skerry.key(1)
    name: str | None = skerry.field(2)
    lat: float | None = skerry.field(3)
    lon: float | None = skerry.field(4)


@skerry.struct(cached=False)
class RouteRequest(skerry.Struct):
    """A request for a route to a harbour."""

    goal: str | None = skerry.field(1)


@skerry.struct(cached=False)
class Route(skerry.Struct):
    """The answer."""

    legs: list[str] | None = skerry.field(1)
