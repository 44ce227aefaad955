"""Making objects: by name, by position where the type says so, and changing them."""

from __future__ import annotations

from uuid import UUID

import skerry
from tests.typing.fleet import Alarm, Place, Purpose, Vessel

empty = Vessel()
by_position = Vessel(244660000, "Anna")
by_name = Vessel(mmsi=244660000, name="Anna", place=Place(lat=52.1, lon=4), class_="A")
unset = Vessel(244660000, purpose=None)
whole = Vessel(
    1,
    destinations=["Rotterdam"],
    track=[Place(lat=1.5)],
    number=UUID(int=0),
    parts=skerry.PropertySet.of([1, 2]),
    tug=skerry.ref_to(by_position),
    thing=skerry.pack(Place()),
    list=[Purpose.class_],
)
alarm = Alarm(id=1, vessel=whole, level=3)

whole.name = None
whole.purpose = Purpose.tanker
whole.track = [*(whole.track or []), Place()]


@skerry.struct(cached=False)
class Declared(skerry.Struct):
    """The same by hand, without a stub."""

    id: skerry.uint32 = skerry.key(1)
    note: str | None = skerry.field(2, default="none")
    vessels: list[Vessel] | None = skerry.field(3)


by_hand = Declared(id=1, vessels=[whole])
without_key = Declared(vessels=[whole])
