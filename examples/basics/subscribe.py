"""Prints the vessels that exist, then each change, for as long as vessels move."""

from fleet import Vessel

import skerry

with skerry.connect(name="display") as space:
    vessels = space.subscribe(Vessel, where="lat > 50")
    print("waiting for vessels", flush=True)
    while (event := vessels.get(timeout=5.0)) is not None:
        print(event.operation, event.object, flush=True)
