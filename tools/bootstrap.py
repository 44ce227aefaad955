"""Sets up `.venv`: a virtual environment with the package itself and what a target needs.

    python tools/bootstrap.py demo     what `skerry demo` needs
    python tools/bootstrap.py all      also what tests, checks, benchmarks and documentation need
    python tools/bootstrap.py wheel    only what the build needs; puts the wheel into build/dist

An environment never loses packages: after `all`, `demo` has nothing to do.

The package is installed as a wheel, not as a link to `src`. So the compiled modules exist only in
`.venv`, and one environment tests both builds: uncompiled runs put `src` first on the path.

Packages are downloaded while the hot modules are compiled: one waits for the network, and the other
for the processor.

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

from setup_jobs import Job, SetupFailed, finish, say

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
STAMP = VENV / "skerry-stamp.json"
PIP: list[str | Path] = [VENV_PYTHON, "-m", "pip", "--disable-pip-version-check"]
PACKAGE_FILES = ("LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.py")

NOTICE = "skerry: "
"""Prefix of the notices that `setup.py` prints."""

LEVELS = ("wheel", "demo", "all")
"""Each level installs its packages and those of the levels before it."""

DURATIONS = {
    "wheel": "about two minutes on two cores",
    "demo": "about two minutes on two cores, with a download of about 650 MB",
    "all": "about three minutes on two cores, with a download of about 950 MB",
}
"""How long the first set-up takes. That of the demo is measured; see docs/start/install.md."""

FAST_BUILDS = """\
[bdist_wheel]
compression = stored
"""
"""Configuration of setuptools for packages that the index has only as sources. PySpark is one:
compressing its 450 MB to unpack them at once takes longer than all other packages."""

Stamp = dict[str, str]


def main(level: str) -> int:
    os.chdir(ROOT)
    # The caller may use another environment, whose settings must not affect this one.
    for name in ("PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV", "PIP_TARGET", "PIP_USER", "PIP_PREFIX"):
        os.environ.pop(name, None)
    try:
        with only_one():
            set_up(level)
            if level == "wheel":
                keep_wheel()
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


def set_up(level: str) -> None:
    """Update `.venv` to the state that the tree requires for a level."""
    old, new = read_stamp(), wanted_stamp(level)
    if old is not None and level == "wheel" and not any(wheel_folder().glob("*.whl")):
        old.pop("package", None)
    if old is not None and all(old.get(key) == value for key, value in new.items()):
        return
    started_s = time.monotonic()
    say(f"setting up .venv; the first time takes {DURATIONS[level]}")
    if old is None or any(old.get(key) != new[key] for key in ("place", "python")):
        make_environment()
        old = {}
    # Without the stamp, an interrupted set-up is recognized as incomplete.
    STAMP.unlink(missing_ok=True)
    missing = [name for name in LEVELS if name in new and old.get(name) != new[name]]
    install(missing, started_s, has_package=old.get("package") == new["package"])
    if "all" in missing:
        install_test_programs()
    current = wanted_stamp("all")
    kept = {name: old[name] for name in LEVELS if name in old and old[name] == current[name]}
    STAMP.write_text(json.dumps(kept | new, indent=2) + "\n", encoding="utf-8")
    say(f"ready after {time.monotonic() - started_s:.0f} s: {installed_version()}")


def install(missing: list[str], started_s: float, *, has_package: bool) -> None:
    """Install the packages of the missing levels, and the package unless it is there."""
    if "wheel" in missing:
        finish([package_job("wheel")], started_s)
    jobs = [package_job(missing[-1])] if missing and missing[-1] != "wheel" else []
    if has_package:
        finish(jobs, started_s)
        return
    mode = "uncompiled" if wants_pure() else "compiled if possible"
    say(f"building skerry, {mode}")
    build = build_job()
    finish([*jobs, build], started_s)
    report_build(build.output)
    (wheel,) = wheel_folder().glob("*.whl")
    run(
        [*PIP, "install", "-qq", "--no-deps", "--force-reinstall", wheel],
        "the package cannot be installed",
    )


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


def wanted_stamp(level: str) -> Stamp:
    levels = LEVELS[: LEVELS.index(level) + 1]
    return {
        # An environment holds absolute paths, so a copy of the tree needs its own.
        "place": str(VENV),
        "python": f"{sys.version} {os.path.realpath(sys.executable)}",
        "package": hash_texts(package_state()),
        **{name: hash_texts(requirements(name)) for name in levels},
    }


def requirements(level: str) -> list[str]:
    """The requirements of a level, from pyproject.toml."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    extras: dict[str, list[str]] = project["project"]["optional-dependencies"]
    wanted = set(project["build-system"]["requires"]) | set(project["project"]["dependencies"])
    names = {"wheel": (), "demo": ("demo",), "all": tuple(extras)}[level]
    return sorted(wanted.union(*(extras.get(name, ()) for name in names)))


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


def package_job(level: str) -> Job:
    """Install the packages of a level. Their bytecode is compiled when it is first imported."""
    wanted = requirements(level)
    builds = ROOT / "build" / "fast-builds.cfg"
    builds.parent.mkdir(exist_ok=True)
    builds.write_text(FAST_BUILDS, encoding="utf-8")
    command = [*PIP, "install", "--no-compile", "--progress-bar", "off", *wanted]
    env = {**os.environ, "DIST_EXTRA_CONFIG": str(builds)}
    # Without requirements, as in the tests of the set-up, pip would report a usage error.
    command = command if wanted else [VENV_PYTHON, "-c", ""]
    return Job("packages", command, "the packages cannot be installed", env)


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


def build_job() -> Job:
    """Build the wheel from a copy below `build`, so that `src` stays clean."""
    work = refresh_copy(wheel_folder().parent)
    shutil.rmtree(wheel_folder(), ignore_errors=True)
    options: list[str | Path] = ["--no-deps", "--no-build-isolation", "--verbose"]
    command = [*PIP, "wheel", *options, "-w", wheel_folder(), work]
    return Job("skerry", command, "the package cannot be built", dict(os.environ))


def report_build(output: str) -> None:
    """Print the notices of a build."""
    notices = [line.strip() for line in output.splitlines() if line.strip().startswith(NOTICE)]
    if any("above" in notice for notice in notices):
        print(output, file=sys.stderr)
    for notice in notices:
        say(notice.removeprefix(NOTICE))


def wheel_folder() -> Path:
    return ROOT / "build" / ("wheel-pure" if wants_pure() else "wheel") / "dist"


def keep_wheel() -> None:
    """Copy the wheel to `build/dist`, and print how to install it."""
    (wheel,) = wheel_folder().glob("*.whl")
    folder = ROOT / "build" / "dist"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy2(wheel, folder)
    place = folder.relative_to(ROOT) / wheel.name
    print(f"built {place}\ninstall it with: pip install {place}", flush=True)


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
