from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from skerry.spark.merging.hashing import object_hashes, part_of


@pytest.mark.slow
def test_objects_have_the_hash_that_spark_gives_them(spark: Any) -> None:
    rng = Random(5)
    keys = [rng.randbytes(length) for length in (*range(80), 200, 1000)]
    rows = [(space, key) for space in ("", "a", "test", "\u00fcx" * 20) for key in keys]
    frame = spark.createDataFrame(
        [(space, bytearray(key)) for space, key in rows], "space string, key binary"
    )
    expected = frame.selectExpr("xxhash64(space, key) h", "pmod(xxhash64(space, key), 8) p")
    spaces = pa.array([space for space, _ in rows]).dictionary_encode()
    found = object_hashes(spaces, pa.array([key for _, key in rows], pa.binary()))
    whole = [(row.h, row.p) for row in expected.collect()]
    assert list(zip(found.tolist(), part_of(found, 8).tolist(), strict=True)) == whole


def test_a_slice_has_the_hashes_of_its_own_rows() -> None:
    spaces = pa.array(["a", "b", "a", "b"]).dictionary_encode()
    keys = pa.array([b"1", b"22", b"", b"4444"], pa.binary())
    whole = object_hashes(spaces, keys).tolist()
    assert object_hashes(spaces.slice(1, 2), keys.slice(1, 2)).tolist() == whole[1:3]
    assert len(set(whole)) == 4
