"""Opens the storage that a URL names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, unquote

from skerry.runtime.storage.contract import Storage, SyncPolicy, failure
from skerry.runtime.storage.sqlite import SqliteStorage
from skerry.runtime.system_folders import state_folder

_POSTGRES = ("postgresql", "postgres")


def open_storage(url: str, *, sync: SyncPolicy = SyncPolicy.COMMIT) -> Storage:
    """Open `sqlite:PATH` or `postgresql://...`; StorageError if that fails.

    A relative path starts from the working directory; `%` begins an escape in it.
    """
    scheme, colon, rest = url.partition(":")
    if scheme == "sqlite" and colon:
        if not rest.strip("/"):
            raise failure(f"{url} has no file", "write it as in sqlite:/var/lib/skerry/node.db")
        # Both sqlite:/path and sqlite:///path are in common use.
        path = rest.removeprefix("//") if rest.startswith("///") else rest
        return SqliteStorage(Path(unquote(path)), sync=sync)
    if scheme in _POSTGRES and rest.startswith("//"):
        # Imported here: a node with an SQLite file does not need psycopg.
        from skerry.runtime.storage.postgres import PostgresStorage

        return PostgresStorage(url, sync=sync)
    raise failure(
        f"there is no storage {scheme if colon else url!r}",
        "storages look like sqlite:/var/lib/skerry/node.db or postgresql://user@host/database",
    )


def default_url(environ: Mapping[str, str], *, name: str) -> str:
    """The file of the node with that name in the state folder."""
    # The name is any text. Quoted it has no slash, and with the suffix it is not `.` or `..`.
    file = f"{quote(name, safe='')}.db"
    return f"sqlite:{quote(str(state_folder(environ)))}/{quote(file)}"
