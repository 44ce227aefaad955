"""Opens the storage that a URL names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, unquote

from skerry.runtime.storage.config import SyncPolicy
from skerry.runtime.storage.contract import Storage, failure
from skerry.runtime.storage.sqlite import SqliteStorage
from skerry.runtime.system_folders import state_folder

__all__ = ["default_url", "open_storage"]

_POSTGRES = ("postgresql", "postgres")


def open_storage(url: str, *, sync: SyncPolicy = SyncPolicy.COMMIT) -> Storage:
    """`sqlite:PATH` or `postgresql://...`; StorageError says what is in the way.

    A relative path is meant from the folder the program runs in; `%` begins an escape in it.
    """
    scheme, colon, rest = url.partition(":")
    if scheme == "sqlite" and colon:
        if not rest.strip("/"):
            raise failure(f"{url} names no file", "write it as in sqlite:/var/lib/skerry/node.db")
        # Both sqlite:/path and sqlite:///path are in use for the same thing.
        path = rest.removeprefix("//") if rest.startswith("///") else rest
        return SqliteStorage(Path(unquote(path)), sync=sync)
    if scheme in _POSTGRES and rest.startswith("//"):
        # Imported here: it brings a library that a node with a file does without.
        from skerry.runtime.storage.postgres import PostgresStorage

        return PostgresStorage(url, sync=sync)
    raise failure(
        f"there is no storage {scheme if colon else url!r}",
        "storages look like sqlite:/var/lib/skerry/node.db or postgresql://user@host/database",
    )


def default_url(environ: Mapping[str, str], *, name: str) -> str:
    """The file of the node of that name in the folder for state."""
    # The name is anybody's text; quoted it has no slash, and alone no folder is called so.
    file = f"{quote(name, safe='')}.db"
    return f"sqlite:{quote(str(state_folder(environ)))}/{quote(file)}"
