"""Section `node.portal`: the portal inside a node."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from skerry.errors import ConfigError
from skerry.runtime.portal.broker_config import PortalBrokerConfig

if TYPE_CHECKING:
    from skerry.apps.portal.service import PortalService


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePortalConfig(PortalBrokerConfig):
    """Section `node.portal`: a portal in the process of the node."""

    enabled: bool = False
    """Whether the node has a portal."""


def portal_of_node(config: NodePortalConfig, state_folder: Path) -> PortalService | None:
    """The portal of a node, which is not ready yet; None if it has none.

    Raises ConfigError if a package is missing, ConnectFailed if the addresses are in use.
    """
    if not config.enabled:
        return None
    try:
        # Imported here: only a node with a portal needs the library.
        from skerry.apps.portal.service import PortalService
    except ImportError as error:
        raise ConfigError(
            key="node.portal.enabled",
            detail=f"portals need a package that is not installed: {error.name}",
            hint="install skerry[portal]",
        ) from error
    # A request of a Goby program must not end the node.
    return PortalService(config, state_folder=state_folder, terminate=None)
