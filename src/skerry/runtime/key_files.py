"""Reads key files of distributor groups, and warns if other users can read them."""

from __future__ import annotations

from pathlib import Path

from skerry.errors import ConfigError, LimitExceeded
from skerry.limits import CONFIG_BYTES_MAX
from skerry.protocol.distributor.sealed_datagrams import GroupSeal
from skerry.protocol.sealing.group_keys import KeyRing, parse_keys
from skerry.runtime.clock import wall_ns
from skerry.runtime.secret_files import warn_of_readers
from skerry.runtime.whole_files import read_whole


def read_keys(file: str | Path, *, key: str = "key_file") -> KeyRing:
    """The keys in a file; ConfigError, with this key, if the file is unreadable or invalid."""
    path, origin = Path(file), f"file {file}"
    try:
        text = read_whole(path, bytes_max=CONFIG_BYTES_MAX).decode()
        mode = path.stat().st_mode
    except OSError as error:
        raise ConfigError(key=key, origin=origin, detail=error.strerror or str(error)) from None
    except (LimitExceeded, UnicodeDecodeError) as error:
        raise ConfigError(key=key, origin=origin, detail=str(error)) from None
    keys = parse_keys(text, origin=origin)
    warn_of_readers(file, mode, "the keys of a group")
    return keys


def open_seal(file: str | Path, *, freshness_s: float = 300.0) -> GroupSeal:
    """The seal of one connection, with the keys in a file; ConfigError as in `read_keys`."""
    return GroupSeal(read_keys(file), wall_ns=wall_ns, freshness_s=freshness_s)
