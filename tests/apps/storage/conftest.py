"""Both kinds of storage, each real: SQLite files, and a PostgreSQL server of the tests' own.

The server is found on the path or where Debian puts it. It runs in a temporary folder, listens on
a Unix socket there and nowhere else, and ends with the tests.
"""

from __future__ import annotations

import itertools
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from skerry.runtime.storage.contract import Storage, SyncPolicy
from skerry.runtime.storage.open import open_storage

PATIENCE_S = 60
"""Timeout of waits; much longer than any test needs."""

WHAT_TO_DO = "install it (Debian: apt-get install postgresql), or put initdb on the path"


class Postgres:
    """A server that can be stopped and started again."""

    def __init__(self, programs: Path, user: str | None) -> None:
        self._programs = programs
        # The server refuses to run as root, and its user must own its folder.
        self._account: dict[str, Any] = {}
        self.folder = Path(tempfile.mkdtemp(prefix="skerry-pg-"))
        if user is not None:
            entry = pwd.getpwnam(user)
            os.chown(self.folder, entry.pw_uid, entry.pw_gid)
            self._account = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        self._is_running = False
        self._schemas = itertools.count(1)

    def create(self) -> None:
        self._run("initdb", "-D", self._data, "-U", "skerry", "-A", "trust", "--encoding=UTF8")

    def start(self) -> None:
        """Start the server, and wait until it accepts connections."""
        options = f"-k {self.folder} -c listen_addresses="
        log = self.folder / "log"
        self._control("start", "-l", log, "-o", options)
        self._is_running = True

    def stop(self, mode: str = "fast") -> None:
        """`immediate` acts as a crash: the next start repairs the files."""
        if self._is_running:
            self._control("stop", "-m", mode)
            self._is_running = False

    def remove(self) -> None:
        try:
            self.stop()
        finally:
            shutil.rmtree(self.folder)

    def url(self, schema: str = "public") -> str:
        host = quote(str(self.folder), safe="")
        return f"postgresql://skerry@{host}/postgres?options={quote(f'-csearch_path={schema}')}"

    def new_schema(self) -> str:
        schema = f"node_{next(self._schemas)}"
        self.execute(f"CREATE SCHEMA {schema}")
        return schema

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Done as the administrator."""
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return [] if cursor.description is None else cursor.fetchall()

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _control(self, verb: str, *arguments: str | Path) -> None:
        self._run("pg_ctl", verb, "-D", self._data, "-w", "-t", str(PATIENCE_S), *arguments)

    def _run(self, program: str, *arguments: str | Path) -> None:
        done = subprocess.run(
            [self._programs / program, *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            **self._account,
        )
        assert done.returncode == 0, done.stdout


def programs() -> Path | None:
    """The folder with the server's programs, the newest where there are several."""
    folders = [Path(name) for name in os.environ.get("PATH", "").split(os.pathsep) if name]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=version_of, reverse=True)
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    return None


def version_of(folder: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", folder.parent.name)]


def account() -> str | None:
    """The user that runs the server; None for the current user."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in names)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    pytest.importorskip(
        "psycopg", reason="psycopg is not installed: the extra `postgres` brings it"
    )
    folder = programs()
    if folder is None:
        pytest.skip(f"there is no PostgreSQL server on this computer: {WHAT_TO_DO}")
    server = Postgres(folder, account())
    try:
        server.create()
        server.start()
        yield server
    finally:
        server.remove()


Opener = Callable[..., Storage]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty storage of one kind."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'node.db'}"
    server = request.getfixturevalue("postgres")
    return str(server.url(server.new_schema()))


@pytest.fixture
def opened() -> Iterator[Opener]:
    """Opens storages, and closes those that the test left open."""
    storages: list[Storage] = []

    def opener(url: str, *, sync: SyncPolicy = SyncPolicy.COMMIT) -> Storage:
        storages.append(open_storage(url, sync=sync))
        return storages[-1]

    yield opener
    for storage in storages:
        storage.close()
