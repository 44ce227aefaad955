"""The TCP ports of a broker's last run, so that clients find a restarted broker at the same ports.

Programs of Goby ask for the ports only once.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Final

from skerry.errors import SkerryError
from skerry.runtime.system_folders import make_folder
from skerry.runtime.whole_files import read_whole, replace_files

_FILE_BYTES_MAX: Final = 1024

log = logging.getLogger(__name__)


class DataPorts:
    """The remembered ports of the broker with this manager port."""

    def __init__(self, folder: Path | None, manager_port: int) -> None:
        """Without a folder, nothing is remembered."""
        self._path = None if folder is None else folder / f"portal-{manager_port}.json"

    def read(self, name: str) -> int:
        """The remembered port; 0 if there is none."""
        if self._path is None:
            return 0
        try:
            found = json.loads(read_whole(self._path, bytes_max=_FILE_BYTES_MAX))
            port = found[name]
        except (OSError, ValueError, LookupError, TypeError, SkerryError):
            return 0
        return port if isinstance(port, int) and 0 < port < 65536 else 0

    def write(self, ports: dict[str, int]) -> None:
        """Remember ports. Without permission or disk space, they are not remembered."""
        if self._path is None or all(self.read(name) == port for name, port in ports.items()):
            return
        try:
            make_folder(self._path.parent)
            replace_files({self._path: json.dumps(ports).encode()}, mode=0o600)
        except (OSError, SkerryError) as error:
            log.warning(
                "the ports of the portal are not remembered",
                extra={"file": str(self._path), "reason": str(error)},
            )
