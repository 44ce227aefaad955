"""Documentation that runs: what the pages show is what happens.

A block of a page is marked by a comment on the line before its fence:

    <!-- run -->              Python, or shell commands that begin with `$ `; output that is shown
                              under a command is what it prints, and `...` in it stands for
                              anything in its line, or alone for any lines. A time of day at the
                              beginning of a line stands for any
    <!-- run until it shows this -->
                              one shell command, again and again until it prints what is shown
    <!-- run in the background -->
                              shell commands that run until the end of the page, as in other
                              terminals. The first line shown is waited for before the page goes on,
                              the others at its end
    <!-- file: fleet.dots --> a file that later blocks of the page find beside them
    <!-- not run: why -->     an excerpt that cannot stand alone, or needs what a test has not

Behind `run` and its kind, `with other figures` lets each word that has a digit, and the unit behind
it, be another one. A page with `<!-- in a network of its own -->` has only a loopback interface.

The blocks of a page run in order, in one folder and as a user with an empty home, and its Python
blocks share their names. A node that a page starts listens in that folder only, whatever else runs
on the computer. Every block of Python or commands is marked one way or another.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

from tests.namespaces import in_namespace

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>[^\n]+?) -->\n\n?)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
RUN = "run"
UNTIL = "run until it shows this"
BACKGROUND = "run in the background"
FIGURES = " with other figures"
NETWORK = "<!-- in a network of its own -->\n"
FIGURE = re.compile(r"\S*\d\S*(?: (?:[num]?s|[kMG]?B(?:/s)?)\b)?")
"""A word with a digit, and its unit."""
TIME = re.compile(r"^\d\d:\d\d:\d\d(\.\d+)? ")
"""A time of day at the beginning of a line."""
PATIENCE_S = 600.0
"""Long enough for Spark to start on a busy computer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    mark: str
    language: str
    text: str
    line: int

    @property
    def way(self) -> str:
        """How the block is run, without what is compared."""
        return self.mark.removesuffix(FIGURES)

    @property
    def figures(self) -> bool:
        return self.mark.endswith(FIGURES)

    def matches(self, output: str, expected: list[str]) -> bool:
        return matches(output, expected, figures=self.figures)


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            mark=match["mark"] or "",
            language=match["language"],
            text=match["text"],
            line=text.count("\n", 0, match.start("text")) + 1,
        )
        for match in BLOCK.finditer(text)
    ]


def is_marked(page: Path) -> bool:
    return any(block.way in (RUN, UNTIL, BACKGROUND) for block in blocks(page))


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_of_python_or_commands_is_marked(page: Path) -> None:
    unmarked = [
        f"{name_of(page)}:{block.line}"
        for block in blocks(page)
        if block.language in ("python", "console", "sh")
        and block.way not in (RUN, UNTIL, BACKGROUND)
        and not re.fullmatch(r"file: .+|not run: .+", block.mark)
    ]
    assert unmarked == []


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if is_marked(page)], ids=name_of)
def test_blocks_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("SKERRY_ENDPOINT", "DOTS_ENDPOINT", "DOTS_AUTH_SECRET"):
        monkeypatch.delenv(name, raising=False)
    for name, value in user_settings(tmp_path).items():
        monkeypatch.setenv(name, value)
    with ExitStack() as ending:
        run_page(page, ending)


def user_settings(folder: Path) -> dict[str, str]:
    """The environment of a user with an empty home, whose node uses no port of the computer."""
    (folder / "run").mkdir(mode=0o700)
    return {
        "HOME": str(folder / "home"),
        "XDG_CONFIG_HOME": str(folder / "home" / ".config"),
        "SKERRY_RUNTIME_DIR": str(folder / "run"),
        "SKERRY_STATE_DIR": str(folder / "state"),
        "SKERRY_NODE__LISTEN": f"uds:{folder}/run/node.sock",
        "SKERRY_NODE__METRICS": "off",
    }


def run_page(page: Path, ending: ExitStack) -> None:
    inside = ending.enter_context(network()) if NETWORK in page.read_text(encoding="utf-8") else []
    pending: list[Block] = []
    for block in blocks(page):
        if block.way == BACKGROUND:
            for command, expected in commands(block.text):
                where = f"{name_of(page)}:{block.line}: {command}"
                ending.enter_context(in_background(inside, block, command, expected, where))
        elif block.mark.startswith("file: "):
            target = Path(block.mark.removeprefix("file: "))
            assert not target.is_absolute()
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, encoding="utf-8")
        elif block.way == RUN and block.language == "python":
            pending.append(block)
            run_python(page, inside, pending)
        elif block.way in (RUN, UNTIL):
            for command, expected in commands(block.text):
                where = f"{name_of(page)}:{block.line}: {command}"
                run_console(inside, block, command, expected, where)


@contextmanager
def network() -> Iterator[list[str]]:
    """What goes before a command so that it runs in a network namespace of this page."""
    with subprocess.Popen(
        [*in_namespace(), "sh", "-c", "echo ready; read end"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "ready\n"
        yield ["nsenter", "-t", str(holder.pid), "-U", "-n", "--preserve-credentials"]
        holder.stdin.close()


def run_python(page: Path, inside: list[str], so_far: list[Block]) -> None:
    """The block after all that came before it on its page."""
    # Line numbers of errors are those of the page.
    source = ""
    for block in so_far:
        source += "\n" * (block.line - 1 - source.count("\n")) + block.text
    Path("page.py").write_text(source, encoding="utf-8")
    done = subprocess.run(
        [*inside, sys.executable, "-W", "error", "page.py"],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, f"{name_of(page)}:{so_far[-1].line}\n{done.stdout}{done.stderr}"


@contextmanager
def in_background(
    inside: list[str], block: Block, command: str, expected: list[str], where: str
) -> Iterator[None]:
    """Run a command until the end of the page, when all lines that the page shows have come."""
    with subprocess.Popen(
        # exec: the signals reach the command itself.
        [*inside, "sh", "-c", f"exec {command}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(),
    ) as running:
        limit = threading.Timer(PATIENCE_S, running.kill)
        limit.start()
        try:
            assert running.stdout is not None
            wait_lines(running.stdout, block, expected[:1], where)
            yield
            wait_lines(running.stdout, block, expected[1:], where)
        finally:
            limit.cancel()
            running.terminate()


def wait_lines(output: IO[str], block: Block, expected: list[str], where: str) -> None:
    """Read until the expected lines have come, in their order."""
    seen = ""
    for line in expected:
        for got in output:
            seen += got
            if block.matches(got, [line]):
                break
        else:
            raise AssertionError(f"{where}\nended without the line: {line}\n{seen}")


def run_console(
    inside: list[str], block: Block, command: str, expected: list[str], where: str
) -> None:
    ends = time.monotonic() + PATIENCE_S
    while True:
        done = subprocess.run(
            [*inside, "sh", "-c", command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment(),
            timeout=PATIENCE_S,
        )
        shown = not expected or block.matches(done.stdout, expected)
        if shown or block.way != UNTIL or time.monotonic() > ends:
            break
    assert done.returncode == 0, f"{where}\n{done.stdout}"
    assert shown, f"{where}\n{done.stdout}"


def commands(text: str) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        elif found and not found[-1][1] and found[-1][0].endswith("\\"):
            found[-1] = (f"{found[-1][0]}\n{line}", [])
        elif found:
            found[-1][1].append(line)
    assert found, "a console block has lines that begin with `$ `"
    return found


def matches(output: str, expected: list[str], *, figures: bool = False) -> bool:
    pattern = "\n".join(line_pattern(line.rstrip(), figures) for line in expected)
    seen = "\n".join(line.rstrip() for line in output.strip("\n").splitlines())
    return re.fullmatch(pattern, seen, re.DOTALL) is not None


def line_pattern(line: str, figures: bool) -> str:
    if line == "...":
        return ".*"
    if TIME.match(line):
        return f"({TIME.pattern[1:]})?{line_pattern(TIME.sub('', line), figures)}"
    return r"[^\n]*".join(part_pattern(part, figures) for part in line.split("..."))


def part_pattern(part: str, figures: bool) -> str:
    if not figures:
        return re.escape(part)
    between = [re.escape(text) for text in FIGURE.split(part)]
    return rf"{FIGURE.pattern}".join(between)


def environment() -> dict[str, str]:
    """The commands of this environment, and its build of the package."""
    bin_folder = str(Path(sys.executable).parent)
    paths = [bin_folder, *os.environ.get("PATH", "").split(os.pathsep)]
    # Without a buffer, lines of a command in the background come as it prints them.
    run = {"NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
    return {**os.environ, "PATH": os.pathsep.join(paths), **run}


def test_output_is_compared_line_by_line_with_dots_for_any() -> None:
    assert matches("a\nb\nc\n", ["a", "...", "c"])
    assert matches("a  \n", ["a"])
    assert matches("ok, 3 nodes, 7 s\n", ["ok, ... nodes, ..."])
    assert not matches("ok\nno\n", ["ok..."])
    assert not matches("a\nb\n", ["a"])
    assert matches("23:59:59.000 a\n", ["14:03:07.214 a"])
    assert not matches("23:59:59.000 b\n", ["14:03:07.214 a"])


def test_figures_and_their_units_may_be_others() -> None:
    shown = ["312 us to 1.4 ms, 40.0 updates/s, 1.9 kB/s of Vessel"]
    assert matches("9.0 ms to 12 ms, 1,039.7 updates/s, 12 B/s of Vessel", shown, figures=True)
    assert not matches("9.0 ms to 12 ms, fast, 12 B/s of Vessel", shown, figures=True)
    assert not matches("9.0 ms to 12 ms, 1 updates/s, 12 B/s of Voyage", shown, figures=True)


def test_a_command_may_take_several_lines() -> None:
    assert commands("$ echo a \\\n    b\na b\n$ true\n") == [
        ("echo a \\\n    b", ["a b"]),
        ("true", []),
    ]
