"""The current objects of a type as a table of pandas. Needs pandas: pip install pandas"""

import pandas
from fleet import Vessel

import skerry

with skerry.connect(name="analyst") as space:
    for number, name in enumerate(("Maren", "Corona", "Dagny")):
        space.publish(Vessel(mmsi=211000000 + number, name=name, lat=54.0 + number))
    space.flush()
    vessels = space.container(Vessel)  # live: each access has the newest state
    fields = [field.name for field in Vessel.descriptor.fields]
    rows = [[getattr(vessel, field) for field in fields] for vessel in vessels.values()]
    table = pandas.DataFrame(rows, columns=fields).set_index("mmsi")
    print(table.sort_index())
    print("northernmost:", table.name[table.lat.idxmax()])
