"""Section `node.portal`: the portal inside a node."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from skerry.apps.portal.mapping_config import MappingConfig
from skerry.errors import ConfigError
from skerry.runtime.portal.broker_config import PortalBrokerConfig

if TYPE_CHECKING:
    from skerry.apps.portal.service import PortalService
    from skerry.runtime.streams.node_server import NodeServer


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePortalConfig(PortalBrokerConfig):
    """Section `node.portal`: a portal in the process of the node."""

    enabled: bool = False
    """Whether the node has a portal."""
    mapping: MappingConfig = field(default_factory=MappingConfig)


def portal_of_node(
    config: NodePortalConfig, state_folder: Path, server: NodeServer
) -> PortalService | None:
    """The portal of a node, which is not ready yet; None if it has none.

    Raises ConfigError if a package is missing or the rules of the mapping are faulty, ConnectFailed
    if the addresses are in use.
    """
    if not config.enabled:
        return None
    try:
        # Imported here: only a node with a portal needs the library.
        from skerry.apps.node.inside_space import open_inside_space
        from skerry.apps.portal.mapper import MAPPING_CLIENT_NAME
        from skerry.apps.portal.mapping_config import make_mapping
        from skerry.apps.portal.service import PortalService
    except ImportError as error:
        raise ConfigError(
            key="node.portal.enabled",
            detail=f"portals need a package that is not installed: {error.name}",
            hint="install skerry[portal]",
        ) from error
    rules = config.mapping.rules
    mapping = make_mapping(config.mapping, "node.portal.mapping") if rules else None
    # A request of a Goby program must not end the node.
    service = PortalService(config, state_folder=state_folder, terminate=None)
    if mapping is not None:
        opener = partial(open_inside_space, server, name=MAPPING_CLIENT_NAME)
        service.start_mapping(mapping, opener)
    return service
