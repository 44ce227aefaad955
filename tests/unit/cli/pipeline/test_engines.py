"""Who answers the questions of commands."""

from __future__ import annotations

from typing import Any

import click
from click.testing import CliRunner

from skerry.cli.pipeline.engines import engine_options
from skerry.cli.pipeline.spark_session import SparkChoice


def test_options_of_spark_choose_spark() -> None:
    seen: list[Any] = []

    @click.command()
    @engine_options
    def ask(*, choice: SparkChoice | None) -> None:
        seen.append(None if choice is None else choice.master)

    runner = CliRunner()
    for words in ([], ["--engine", "spark"], ["--master", "local[1]"], ["--memory", "3g"]):
        assert runner.invoke(ask, words).exit_code == 0
    assert seen == [None, "local[*]", "local[1]", "local[*]"]
    refused = runner.invoke(ask, ["--engine", "lake", "--master", "local[1]"])
    assert (refused.exit_code, "--master is for Spark" in refused.output) == (2, True)
