from __future__ import annotations

import pyarrow as pa

from skerry.codec.envelope import ACCESS, DISTRIBUTOR
from skerry.spark.merging.identity import (
    BY_CONTENT,
    BY_MULTICAST,
    BY_POSITION,
    BY_SENDER,
    CounterGroup,
    RowIdentity,
    identity_of,
    numbers_of,
)

ROWS = [
    (ACCESS, 7, 3, 11, 5, 100, CounterGroup(BY_POSITION, 7, 0), 5),
    (DISTRIBUTOR, 7, 3, 11, 5, 100, CounterGroup(BY_MULTICAST, 0, 3), 11),
    (DISTRIBUTOR, 7, 3, 0, 5, 100, CounterGroup(BY_POSITION, 7, 0), 5),
    (ACCESS, 0, 3, 11, 5, 100, CounterGroup(BY_SENDER, 0, 3), 11),
    (ACCESS, 7, 3, 11, 0, 100, CounterGroup(BY_SENDER, 7, 3), 11),
    (ACCESS, 7, 3, 0, 0, 100, CounterGroup(BY_CONTENT, 7, 3), 100),
]


def table(rows: list[tuple[object, ...]]) -> pa.Table:
    names = ("source", "node", "sender", "sequence", "position", "time_ns")
    return pa.table({name: [row[place] for row in rows] for place, name in enumerate(names)})


def listed(identity: RowIdentity) -> list[tuple[CounterGroup, int]]:
    columns = (numbers_of(pa.array(column)).tolist() for column in identity)
    return [(CounterGroup(*group), number) for *group, number in zip(*columns, strict=True)]


def test_rows_are_identified_by_their_counter() -> None:
    expected = [(row[6], row[7]) for row in ROWS]
    assert listed(identity_of(table(list(ROWS)))) == expected
    assert listed(identity_of(table([ROWS[0]]))) == expected[:1], "the usual case"
