"""Publishes a vessel, then what changes of it. Start a node first: skerry node run"""

import time

from fleet import Vessel

import skerry

with skerry.connect(name="tracker") as space:
    space.publish(Vessel(mmsi=244660000, name="Maren", lat=52.1, lon=4.2))
    for step in range(10):
        time.sleep(0.1)
        space.publish(Vessel(mmsi=244660000, lat=52.1 + step / 100))  # only the changed field
    space.flush()  # the node has received all of it
