"""`skerry sim`: run simulated systems with one seed or many, and repeat failures."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from skerry.cli.output import Output, current_output, json_option
from skerry.cli.progress import progress_bar
from skerry.cli.stopping import stop_on_signals
from skerry.errors import ConfigError

if TYPE_CHECKING:
    from skerry.testing.scenarios import Outcome

_SEED_MAX: Final = 2**63 - 1
"""Largest seed: failed seeds are stored in TOML, whose integers are signed with 64 bits."""


@click.group()
def sim() -> None:
    """Run systems of many nodes in a simulated world, with faults, determined by a seed."""


@sim.command("list")
@json_option
def list_scenarios(as_json: bool) -> None:
    """List the scenarios of skerry and of the project in the working folder.

    A project registers a scenario by a line `name = "module:attribute"` in the table
    [tool.skerry.scenarios] of its pyproject.toml.

    \b
    Example:
      skerry sim list
    """
    from skerry.testing.scenarios import find_scenario, known_scenarios

    output = current_output()
    with _usage_errors():
        names = known_scenarios()
        _search_working_folder(names)
        found = {name: find_scenario(name) for name in names}
    if as_json:
        for name, entry in found.items():
            row = {"scenario": name, "nodes": entry.node_count, "summary": entry.summary}
            output.json_line(row)
    else:
        rows = [(name, entry.node_count, entry.summary) for name, entry in found.items()]
        output.table(["scenario", "nodes", "what happens"], rows)


@sim.command()
@click.option(
    "--scenario",
    metavar="S",
    help="Scenario of `sim list`, or your own as module:attribute. Default: all of `sim list`.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, _SEED_MAX),
    metavar="N",
    help="Seed of the run, or first seed with --count. Default: 0.",
)
@click.option(
    "--seeds",
    metavar="A..B",
    callback=lambda _context, _option, text: _seed_range(text),
    help="Range of seeds, B excluded; instead of --seed and --count.",
)
@click.option(
    "-c",
    "--count",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of seeds. Default: 1.",
)
@click.option(
    "--nodes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of nodes. Default: that of the scenario.",
)
@click.option("--trace", is_flag=True, help="Print every event as one JSON object per line.")
@json_option
@click.option(
    "--keep",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Append seeds that fail to this TOML file. Default: they are only printed.",
)
@click.pass_context
def run(
    ctx: click.Context,
    *,
    scenario: str | None,
    seed: int | None,
    seeds: range | None,
    count: int | None,
    nodes: int | None,
    trace: bool,
    as_json: bool,
    keep: Path | None,
) -> None:
    """Run a simulated system. The same seed gives the same run, event by event.

    \b
    Examples:
      skerry sim run --scenario echo --seed 7            one run
      skerry sim run --scenario echo --seed 7 --trace    the same, with every event
      skerry sim run --count 100 --keep seeds.toml       search for seeds that fail
      skerry sim run --scenario mytests.sims:orders      your own scenario

    Exit code 0: every run passed; 1: a run failed, or a signal arrived before the last run; 2: the
    command line was wrong.
    """
    from skerry.testing.scenarios import find_scenario, known_scenarios, run_scenario

    chosen = _chosen_seeds(seed, seeds, count)
    with _usage_errors():
        names = list(known_scenarios()) if scenario is None else [scenario]
        _search_working_folder(names)
        # A scenario that is not found is reported before the first run, not after an hour.
        for name in names:
            find_scenario(name)
    output = current_output()
    sink = output.line if trace else None
    seed_count = chosen.stop - chosen.start
    shows_each = as_json or seed_count == 1
    tallies: dict[str, Counter[str]] = {name: Counter() for name in names}
    total = len(names) * seed_count
    is_cut_short = False
    with stop_on_signals() as stop, progress_bar(output, "seeds", total=total) as advance:
        for name, number in ((name, number) for name in names for number in chosen):
            if stop.is_requested:
                is_cut_short = True
                output.note("stopped before all seeds were run")
                break
            with _usage_errors():
                outcome = run_scenario(name, number, node_count=nodes, sink=sink)
            tallies[name] += Counter(
                seeds=1,
                failed=outcome.error is not None,
                events=outcome.event_count,
                faults=outcome.fault_count,
            )
            _show(output, outcome, as_json=as_json, shows_success=shows_each)
            if outcome.error is not None and keep is not None:
                _keep(output, outcome, nodes, keep)
            advance(1)
    if not shows_each:
        for name, tally in tallies.items():
            output.line(
                f"{name}: {tally['seeds']} seeds, {tally['failed']} failed,"
                f" {tally['events']} events, {tally['faults']} faults"
            )
    has_failed = any(tally["failed"] for tally in tallies.values())
    ctx.exit(1 if has_failed or is_cut_short else 0)


def _seed_range(text: str | None) -> range | None:
    if text is None:
        return None
    first, dots, stop = text.partition("..")
    if not (dots and first.isdecimal() and stop.isdecimal()):
        raise click.BadParameter(f"{text!r} is not a range of seeds such as 0..100")
    # The length is checked first: Python refuses to convert thousands of digits.
    digit_count = max(len(first.lstrip("0")), len(stop.lstrip("0")))
    if digit_count > len(str(_SEED_MAX)) or int(stop) > _SEED_MAX + 1:
        raise click.BadParameter(f"the largest seed is {_SEED_MAX}")
    if int(first) >= int(stop):
        raise click.BadParameter(f"{text!r} is not a range of seeds such as 0..100")
    return range(int(first), int(stop))


def _chosen_seeds(seed: int | None, seeds: range | None, count: int | None) -> range:
    if seeds is None:
        first = seed or 0
        stop = first + (count or 1)
        if stop > _SEED_MAX + 1:
            raise click.UsageError(f"the largest seed is {_SEED_MAX}; choose a smaller --count")
        return range(first, stop)
    if seed is not None or count is not None:
        raise click.UsageError("--seeds excludes --seed and --count")
    return seeds


def _show(output: Output, outcome: Outcome, *, as_json: bool, shows_success: bool) -> None:
    error = outcome.error
    if as_json:
        output.json_line(_row(outcome))
    elif shows_success or error is not None:
        output.line(
            f"{outcome.scenario} seed {outcome.seed}: {'ok' if error is None else 'failed'},"
            f" {outcome.node_count} nodes, {outcome.event_count} events,"
            f" {outcome.fault_count} faults, {outcome.simulated_ns / 1e9:.1f} s simulated,"
            f" digest {outcome.digest[:16]}"
        )
    if error is not None:
        for line in error.trace:
            output.note(line)
        if output.debug and error.__cause__ is not None:
            output.traceback(error.__cause__)
        output.error(str(error), hint=error.hint)


def _row(outcome: Outcome) -> dict[str, object]:
    row: dict[str, object] = {
        "scenario": outcome.scenario,
        "seed": outcome.seed,
        "nodes": outcome.node_count,
        "ok": outcome.error is None,
        "digest": outcome.digest,
        "events": outcome.event_count,
        "inputs": outcome.input_count,
        "faults": outcome.fault_count,
        "simulated_s": outcome.simulated_ns / 1e9,
    }
    if outcome.error is not None:
        row["checker"] = outcome.error.checker
        row["detail"] = outcome.error.detail
        row["command"] = outcome.error.command
    return row


def _keep(output: Output, outcome: Outcome, nodes: int | None, path: Path) -> None:
    from skerry.testing.seeds import KeptSeed, keep_seed

    assert outcome.error is not None
    why = f"{outcome.error.checker}: {outcome.error.detail}"
    kept = KeptSeed(scenario=outcome.scenario, seed=outcome.seed, nodes=nodes, why=why)
    if keep_seed(path, kept):
        output.note(f"kept in {path}")


def _search_working_folder(names: Iterable[str]) -> None:
    """Search the working folder for modules of scenarios that are not part of skerry.

    An installed script does not do so.
    """
    from skerry.testing.scenarios import SHIPPED

    if any(name not in SHIPPED for name in names):
        sys.path.insert(0, str(Path.cwd()))


@contextmanager
def _usage_errors() -> Iterator[None]:
    """Turn a ConfigError into an error of the command line."""
    try:
        yield
    except ConfigError as error:
        message = f"{error}; {error.hint}" if error.hint else str(error)
        raise click.UsageError(message, click.get_current_context()) from error
