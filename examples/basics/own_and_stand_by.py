"""Two programs may steer one vessel: one owns it, and the other takes over when the first ends."""

import threading

from fleet import Vessel

import skerry

VESSEL = 219000002

with skerry.connect(name="captain") as captain, skerry.connect(name="mate") as mate:
    captain.own(Vessel, keys=[VESSEL])
    captain.publish(Vessel(mmsi=VESSEL, name="Dagny", lat=55.6))
    captain.flush()

    took_over = threading.Event()

    def changed(ownership: skerry.Ownership) -> None:
        if ownership.is_held:
            took_over.set()

    mate.own(Vessel, keys=[VESSEL], standby=True, on_change=changed)
    mate.publish(Vessel(mmsi=VESSEL, lat=0.0))
    try:
        mate.flush()
    except skerry.Refused as refusal:
        print(refusal)  # ... it is owned by client ...

    captain.close()  # or kill -9
    took_over.wait(timeout=30.0)
    mate.publish(Vessel(mmsi=VESSEL, lat=55.7))
    mate.flush()
    print("the mate steers", mate.container(Vessel)[VESSEL])
