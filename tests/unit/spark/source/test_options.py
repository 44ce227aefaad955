"""Options of the data source."""

from __future__ import annotations

from pathlib import Path

import pytest

from skerry.errors import PipelineError
from skerry.spark.source.options import read_options, write_options


def test_options_are_read_whatever_their_case() -> None:
    options = read_options(
        {
            "PATH": "/r",
            "Type": "Vessel",
            "columns": " lat, lon ,lat",
            "from": "10000",
            "to": "2026-11-15T12:00:00Z",
            "range": '[["a1", 0, 3]]',
            "fingerprints": "1,-2",
            "strict": "TRUE",
            "maxsegments": "4",
        }
    )
    assert options.paths == ("/r",)
    assert options.type_name == "Vessel"
    assert options.columns == ("lat", "lon")
    assert (options.from_ns, options.to_ns) == (10000, 1_794_744_000_000_000_000)
    assert options.ranges == (("a1", 0, 3),)
    assert options.fingerprints == (1, -2)
    assert options.is_strict
    assert options.max_segments == 4
    assert options.max_rows is None


def test_paths_are_made_whole_and_may_be_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/usr")
    assert read_options({"path": "lib"}).paths == ("/usr/lib",)
    assert read_options({"paths": '["file:/a", "file:///b"]'}).paths == ("/a", "/b")
    places = ("s3a://bucket/r", "hdfs:///r")
    assert read_options({"paths": '["s3a://bucket/r/", "hdfs:///r"]'}).paths == places


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("strict", "perhaps"),
        ("maxRows", "0"),
        ("maxRows", "many"),
        ("partitionBytes", "-1"),
        ("range", "{}x"),
        ("range", "[[1]]"),
        ("fingerprints", "a"),
        ("from", "soon"),
    ],
)
def test_an_invalid_value_is_rejected(name: str, value: str) -> None:
    with pytest.raises(PipelineError, match=f"option {name}|is not an instant"):
        read_options({"path": "/r", name: value})


def test_an_unknown_option_is_rejected_with_the_nearest_known_one() -> None:
    with pytest.raises(PipelineError, match="no option form") as caught:
        read_options({"path": "/r", "form": "x"})
    assert caught.value.hint == "did you mean from?"
    with pytest.raises(PipelineError) as caught:
        read_options({"path": "/r", "zzzzz": "x"})
    assert "maxSegments" in (caught.value.hint or "")


def test_a_read_without_a_path_is_rejected() -> None:
    with pytest.raises(PipelineError, match="no folder"):
        read_options({})


def test_a_writer_needs_a_type_and_reads_its_definition_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "alarm.dots"
    file.write_text("struct Alarm { 1: [key] string name; }\n")
    options = write_options({"node": "tcp://h", "type": "Alarm", "types": str(file)})
    assert options.struct is not None
    assert options.struct.field("name").is_key
    assert options.node == "tcp://h"
    with pytest.raises(PipelineError, match="does not define a struct Bell"):
        write_options({"type": "Bell", "types": str(file)})
    with pytest.raises(PipelineError, match="type is missing"):
        write_options({"node": "tcp://h"})
    with pytest.raises(PipelineError, match="number of seconds"):
        write_options({"type": "Alarm", "timeout": "long"})
