"""Sets up `.venv`: a virtual environment with the tools of the project and the package itself.

The package is installed as a wheel, not as a link to `src`. So the compiled modules exist only in
`.venv`, and one environment tests both builds: uncompiled runs put `src` first on the path.

A stamp records what was installed. Without a stamp, as after an interrupted set-up, everything is
installed again. If the stamp is up to date, nothing is done. A lock serializes concurrent set-ups.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
STAMP = VENV / "skerry-stamp.json"
PACKAGE_FILES = ("LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.py")

NOTICE = "skerry: "
"""Prefix of the notices that `setup.py` prints."""

Stamp = dict[str, str]


class SetupFailed(Exception):
    """The set-up failed. The hint describes the remedy."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.hint = hint


def main() -> int:
    os.chdir(ROOT)
    # The caller may use another environment, whose settings must not affect this one.
    for name in ("PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV", "PIP_TARGET", "PIP_USER", "PIP_PREFIX"):
        os.environ.pop(name, None)
    try:
        with only_one():
            set_up()
    except SetupFailed as error:
        print(f"error: {error}\nhint:  {error.hint}", file=sys.stderr)
        return 1
    except OSError as error:
        hint = "the tree must be writable, and .venv and build must belong to the current user"
        print(f"error: {error}\nhint:  {hint}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("error: interrupted; the next run starts again", file=sys.stderr)
        return 1
    return 0


def set_up() -> None:
    """Update `.venv` to the state that the tree requires."""
    old, new = read_stamp(), wanted_stamp()
    if old == new:
        return
    started_s = time.monotonic()
    if old is None or any(old.get(key) != new[key] for key in ("place", "python")):
        make_environment()
        old = {}
    # Without the stamp, an interrupted set-up is recognized as incomplete.
    STAMP.unlink(missing_ok=True)
    if old.get("dependencies") != new["dependencies"]:
        install_dependencies()
        install_test_programs()
    install_package()
    STAMP.write_text(json.dumps(new, indent=2) + "\n", encoding="utf-8")
    say(f"ready after {time.monotonic() - started_s:.0f} s: {installed_version()}")


# -- installed and required state


def read_stamp() -> Stamp | None:
    """The stamp of the environment. None if it is incomplete or does not work."""
    try:
        stamp = json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    # The interpreter of the environment may have been upgraded or removed since.
    probe = [str(VENV_PYTHON), "-I", "-c", "import pip"]
    try:
        works = subprocess.run(probe, capture_output=True, check=False).returncode == 0
    except OSError:
        works = False
    return stamp if works and isinstance(stamp, dict) else None


def wanted_stamp() -> Stamp:
    return {
        # An environment holds absolute paths, so a copy of the tree needs its own.
        "place": str(VENV),
        "python": f"{sys.version} {os.path.realpath(sys.executable)}",
        "dependencies": hash_texts(requirements()),
        "package": hash_texts(package_state()),
    }


def requirements() -> list[str]:
    """All requirements of the project, from pyproject.toml."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    wanted = set(project["build-system"]["requires"]) | set(project["project"]["dependencies"])
    for extra in project["project"]["optional-dependencies"].values():
        wanted.update(extra)
    return sorted(wanted)


def package_state() -> Iterator[str]:
    """Texts that determine the wheel: its sources, and whether it is compiled."""
    for path in package_paths():
        yield str(path)
        yield hashlib.sha256(path.read_bytes()).hexdigest()
    yield f"pure={wants_pure()}"
    yield f"compiler={compiler()}"
    yield f"headers={Path(sysconfig.get_path('include'), 'Python.h').exists()}"


def package_paths() -> list[Path]:
    sources = (p for p in Path("src").rglob("*") if p.is_file() and is_source(p))
    return sorted([Path(name) for name in PACKAGE_FILES if Path(name).exists()] + list(sources))


def is_source(path: Path) -> bool:
    return "__pycache__" not in path.parts and not any(p.endswith(".egg-info") for p in path.parts)


def compiler() -> str | None:
    """Path of the C compiler for extension modules, or None if it is not installed."""
    words = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()
    return shutil.which(words[0])


def wants_pure() -> bool:
    return os.environ.get("SKERRY_PURE", "") not in ("", "0")


def hash_texts(texts: list[str] | Iterator[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


# -- installation


@contextmanager
def only_one() -> Iterator[None]:
    """Hold the lock of the set-up. The kernel releases it if the process is killed."""
    with Path(".venv.lock").open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another set-up is running; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make_environment() -> None:
    if VENV.exists():
        say("removing .venv: it is incomplete, or made for another Python or another path")
        shutil.rmtree(VENV)
    say(f"creating .venv with Python {sys.version.split()[0]}")
    if has_module("ensurepip") and has_module("venv"):
        run([sys.executable, "-m", "venv", VENV], "the virtual environment cannot be created")
    elif has_module("pip") and has_module("venv"):
        run(
            [sys.executable, "-m", "venv", "--without-pip", VENV],
            "the virtual environment cannot be created",
        )
        run(
            [sys.executable, "-m", "pip", "--python", VENV_PYTHON, "install", "-qq", "pip"],
            "pip cannot be installed into the virtual environment",
        )
    else:
        install_venv_module()
        run([sys.executable, "-m", "venv", VENV], "the virtual environment cannot be created")


def install_venv_module() -> None:
    """Debian and its derivatives ship the venv module as a separate package."""
    command = ["apt-get", "install", "--yes", f"python3.{sys.version_info.minor}-venv"]
    missing = f"this Python ({sys.executable}) lacks the modules venv and ensurepip"
    typed = " ".join(command)
    if shutil.which("apt-get") is None:
        raise SetupFailed(missing, "install them with the package manager of this system")
    if os.geteuid() != 0:
        raise SetupFailed(missing, f"run `sudo {typed}`, then make again")
    say(f"{missing}; running: {typed}")
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    if subprocess.run(command, check=False).returncode != 0:
        run(["apt-get", "update", "--quiet"], "the package lists cannot be fetched")
        run(command, "the missing modules cannot be installed")


def install_dependencies() -> None:
    wanted = requirements()
    if not wanted:
        return
    say(f"installing {len(wanted)} packages and what they need (a minute or so)")
    run(
        [VENV_PYTHON, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *wanted],
        "the packages cannot be installed",
    )


def install_test_programs() -> None:
    """Install the other programs that tests use. Without one, its tests are skipped."""
    clusters = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    if shutil.which("initdb") is None and next(clusters, None) is None:
        install_by_apt("postgresql", "PostgreSQL server")
    if shutil.which("nft", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
        install_by_apt("nftables", "packet filter nft")
    if shutil.which("tshark") is None:
        install_by_apt("tshark", "packet analyser tshark")


def install_by_apt(package: str, what: str) -> None:
    command = ["apt-get", "install", "--yes", "--no-install-recommends", package]
    typed = " ".join(command)
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        say(f"no {what}: its tests will be skipped (install it with: {typed})")
        return
    say(f"no {what}; running: {typed}")
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    for attempt in (command, ["apt-get", "update", "--quiet"], command):
        done = subprocess.run(attempt, check=False, capture_output=True, text=True)
        if done.returncode == 0 and attempt is command:
            return
    say(f"no {what} can be installed, its tests will be skipped: {last_line(done.stderr)}")


def install_package() -> None:
    """Build the wheel from a copy below `build`, so that `src` stays clean, and install it."""
    say("building skerry uncompiled" if wants_pure() else "building skerry, compiled if possible")
    work = refresh_copy(ROOT / "build" / ("wheel-pure" if wants_pure() else "wheel"))
    wheels = work / "dist"
    shutil.rmtree(wheels, ignore_errors=True)
    pip: list[str | Path] = [VENV_PYTHON, "-m", "pip", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--verbose", "-w", wheels, work]
    output = run(build, "the package cannot be built", quiet=True)
    notices = [line.strip() for line in output.splitlines() if line.strip().startswith(NOTICE)]
    if any("above" in notice for notice in notices):
        print(output, file=sys.stderr)
    for notice in notices:
        say(notice.removeprefix(NOTICE))
    (wheel,) = wheels.glob("*.whl")
    run(
        [*pip, "install", "-qq", "--no-deps", "--force-reinstall", wheel],
        "the package cannot be installed",
    )


def refresh_copy(work: Path) -> Path:
    """Update the copy of the sources. Object files of earlier builds are kept."""
    key = hash_texts([sys.version, *(Path(n).read_text() for n in ("setup.py", "pyproject.toml"))])
    key_file = work / "key"
    if not key_file.exists() or key_file.read_text(encoding="utf-8") != key:
        shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(work / "src", ignore_errors=True)
    # setuptools never deletes files: a module removed from `src` would stay in the wheel.
    for old in (work / "build").glob("lib*/**/*"):
        if old.is_file() and old.suffix != ".so":
            old.unlink()
    for path in package_paths():
        target = work / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    key_file.write_text(key, encoding="utf-8")
    return work


def installed_version() -> str:
    probe = "import skerry.build_info as b; print(f'skerry {b.version()} ({b.mode()})')"
    return run([VENV_PYTHON, "-I", "-c", probe], "the package does not start", quiet=True).strip()


# -- helpers


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no reason given"


def has_module(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def run(command: Sequence[str | Path], failure: str, *, quiet: bool = False) -> str:
    """Run a program. Returns its output if `quiet`, else the program prints it."""
    pipe = subprocess.PIPE if quiet else None
    done = subprocess.run(command, check=False, text=True, stdout=pipe, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        if quiet:
            print(done.stdout, file=sys.stderr)
        raise SetupFailed(failure, "see the output of the failing program above")
    return done.stdout or ""


def say(text: str) -> None:
    print(f"venv: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
