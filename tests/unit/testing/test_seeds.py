"""Kept seeds: what is written is read, once, and a file with mistakes is explained."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.errors import ConfigError
from skerry.testing.seeds import KeptSeed, keep_seed, read_seeds


def test_a_kept_seed_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "seeds.toml"
    first = KeptSeed(scenario="echo", seed=0, why="It found nothing, it is an example.")
    second = KeptSeed(scenario="my.module:name", seed=5, nodes=3, why='With "quotes".')
    assert keep_seed(path, first)
    assert keep_seed(path, second)
    assert read_seeds(path) == [first, second]


def test_a_seed_is_kept_once_and_its_first_sentence_stays(tmp_path: Path) -> None:
    path = tmp_path / "seeds.toml"
    assert keep_seed(path, KeptSeed(scenario="echo", seed=1, why="first"))
    assert not keep_seed(path, KeptSeed(scenario="echo", seed=1, why="second"))
    assert keep_seed(path, KeptSeed(scenario="echo", seed=1, nodes=9, why="other nodes"))
    assert [kept.why for kept in read_seeds(path)] == ["first", "other nodes"]


def test_comments_of_people_stay_when_a_seed_is_added(tmp_path: Path) -> None:
    path = tmp_path / "seeds.toml"
    path.write_text("# a comment\n")
    keep_seed(path, KeptSeed(scenario="echo", seed=1, why="x"))
    assert path.read_text().startswith("# a comment\n")
    assert len(read_seeds(path)) == 1


@given(why=st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_sentence_survives(tmp_path_factory: pytest.TempPathFactory, why: str) -> None:
    path = tmp_path_factory.mktemp("seeds") / "seeds.toml"
    keep_seed(path, KeptSeed(scenario="echo", seed=1, why=why))
    assert read_seeds(path)[0].why == why


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("seed = [", "not TOML"),
        ("other = 1", "only \\[\\[seed\\]\\] tables"),
        ("seed = 1", "only \\[\\[seed\\]\\] tables"),
        ("seed = [1]", "only \\[\\[seed\\]\\] tables"),
        ("seed = " + "[" * 100_000, "not TOML"),
        ('[[seed]]\nscenario="a"\nseed=1\nwhy=""', "seed.why .*the key is missing"),
        ('[[seed]]\nscenario="a"\nseed=1', "seed.why .*the key is missing"),
        ('[[seed]]\nscenario="a"\nwhy="b"', "seed.seed .*the key is missing"),
        ('[[seed]]\nseed=1\nwhy="b"', "seed.scenario .*the key is missing"),
        ('[[seed]]\nscenario="a"\nseed="1"\nwhy="b"', "seed.seed .*is not of type int"),
        ('[[seed]]\nscenario="a"\nseed=1\nwhy="b"\nnods=2', "seed.nods .*no such key"),
    ],
)
def test_mistakes_in_the_file_are_explained(tmp_path: Path, text: str, detail: str) -> None:
    path = tmp_path / "seeds.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=detail):
        read_seeds(path)


def test_a_file_that_is_not_utf_8_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "seeds.toml"
    path.write_bytes(b"# F\xe4hre\n")
    with pytest.raises(ConfigError, match=r"not TOML: .*utf-8"):
        read_seeds(path)


def test_a_missing_file_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_seeds(tmp_path / "absent.toml")
