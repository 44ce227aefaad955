"""The storage of a running node: opened when it is needed, and flushed before the node ends.

A configured storage is opened at the start, and so is the default file if it exists. Otherwise the
default file is created when the first persistent object is published: most nodes never have one,
and leave no file behind.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Final
from urllib.parse import unquote

from skerry.engine.node import NodeCore
from skerry.engine.persistence import Journal, StoredObject
from skerry.errors import ConfigError, StorageError
from skerry.runtime.storage.contract import Storage, StorageConfig
from skerry.runtime.storage.open import default_url, open_storage
from skerry.runtime.storage.storage_writer import StorageWriter
from skerry.runtime.system_folders import make_folder, state_folder

_RETRY_S: Final = 5.0
"""Pause between attempts to open a storage."""

log = logging.getLogger(__name__)


class NodeStorage:
    """Connects the journal of a core with a storage."""

    def __init__(self, config: StorageConfig, *, name: str, environ: Mapping[str, str]) -> None:
        self._config = config
        self._environ = environ
        self._is_default = not config.url
        self._url = config.url or default_url(environ, name=name)
        self._storage: Storage | None = None
        self._journal: Journal | None = None
        self._keeper: StorageWriter | None = None
        self._stored: Callable[[], None] = lambda: None
        self._opening: asyncio.Task[None] | None = None
        self._trouble = ""

    async def open(self, rng: Random) -> Journal:
        """Open an existing storage; returns the journal of the core. StorageError if that fails."""
        meta: dict[str, int] = {}
        file = Path(unquote(self._url.removeprefix("sqlite:")))
        if not self._is_default or file.exists():
            loop = asyncio.get_running_loop()
            self._storage = await loop.run_in_executor(None, self._open)
            meta = self._storage.meta()
        interval_ns = self._config.interval_ns
        self._journal = Journal(rng=rng, interval_ns=interval_ns, meta=meta)
        return self._journal

    def start(self, core: NodeCore, stored: Callable[[], None]) -> int:
        """Load the stored objects into the core, and store its changes from now on.

        Returns the number of objects. `stored` is called whenever changes have been stored.
        """
        assert self._journal is not None
        self._stored = stored
        if self._storage is None:
            return 0
        count = 0
        core.restored_meta(self._journal.meta)
        for item in self._storage.load():
            core.restored(item)
            count += isinstance(item, StoredObject)
        self._keep(self._storage)
        return count

    def wake(self) -> None:
        """Store what waits in the journal, in the background; cheap if nothing waits."""
        if self._keeper is not None:
            self._keeper.wake()
        elif self._opening is None and self._has_waiting:
            loop = asyncio.get_running_loop()
            self._opening = loop.create_task(self._open_late())

    @property
    def trouble(self) -> str:
        """Why objects are not stored; empty if they are."""
        return self._trouble or (self._journal.trouble if self._journal is not None else "")

    @property
    def _has_waiting(self) -> bool:
        return self._journal is not None and self._journal.number > self._journal.stored

    async def close(self) -> None:
        """Store all that waits in the journal; StorageError if that fails."""
        self.wake()
        if self._opening is not None and self._keeper is None:
            # The first attempt to open is awaited, since objects wait for it, but not its retries.
            await asyncio.wait([self._opening], timeout=_RETRY_S)
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        if self._keeper is not None:
            await self._keeper.close()
        elif self._storage is not None:
            self._storage.close()
        elif self._trouble or self._has_waiting:
            reason = self._trouble or f"the storage did not open within {_RETRY_S:g} s"
            raise StorageError(f"objects were not stored: {reason}")

    def _open(self) -> Storage:
        if self._is_default:
            make_folder(state_folder(self._environ))
        return open_storage(self._url, sync=self._config.sync)

    async def _open_late(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                storage = await loop.run_in_executor(None, self._open_empty)
            except (ConfigError, StorageError) as error:
                self._trouble = str(error)
                log.error("the storage cannot be opened", extra={"reason": str(error)})  # noqa: TRY400 - the reason is sufficient
                await asyncio.sleep(_RETRY_S)
                continue
            self._trouble = ""
            self._keep(storage)
            log.info("storage opened", extra={"place": storage.location})
            return

    def _open_empty(self) -> Storage:
        """Open a storage that is still empty: the objects of two nodes must not be mixed."""
        storage = self._open()
        if storage.meta():
            place = storage.location
            storage.close()
            raise StorageError(
                f"{place} was filled by another node since this one started;"
                " give each node its own name or storage"
            )
        return storage

    def _keep(self, storage: Storage) -> None:
        assert self._journal is not None
        self._keeper = StorageWriter(self._journal, storage, self._stored)
        self._keeper.start()
