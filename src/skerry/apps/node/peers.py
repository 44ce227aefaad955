"""Section `node.peers`: how the nodes of a system find each other, and what is required of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import Final

from skerry.engine.system.config import Rejoin, SystemConfig
from skerry.errors import ConfigError
from skerry.limits import CONFIG_BYTES_MAX
from skerry.protocol.link.config import LinkConfig
from skerry.protocol.machine import Address
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.protocol.rtps.entities import Channel
from skerry.runtime.key_files import read_keys
from skerry.runtime.udp.interfaces import parse_group
from skerry.runtime.udp.system_addresses import (
    SystemNetworkConfig,
    default_group,
    split_address,
    unicast_port,
)
from skerry.runtime.whole_files import read_whole

_SECOND: Final = 1_000_000_000
_NONE: Final = "none"
_SEEDS: Final = "node.peers.seeds"
_SEED_COUNT_MAX: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTypeConfig(NodeType):
    """A table of `node.peers.types`: a node type, the same at all nodes of the system."""

    name: str
    """The name by which nodes choose the type."""
    multicast: bool = True
    """Whether these nodes are reached by multicast; if not, by unicast only. Groups that are not
    given are 239.192.77.N for the Nth type."""

    def __post_init__(self) -> None:
        NodeType.__post_init__(self)
        if self.multicast_control and not self.multicast:
            raise ValueError("multicast_control is given although multicast = false")


_MULTICAST_TYPE: Final = NodeTypeConfig(name="node")
_UNICAST_TYPE: Final = NodeTypeConfig(name="unicast", multicast=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """A host at which another node may be."""

    host: str
    """An address, or a name that is resolved."""
    port: int

    @property
    def address(self) -> Address | None:
        """The address; None for a name."""
        try:
            return Address(str(ip_address(self.host)), self.port)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePeersConfig(SystemNetworkConfig):
    """Section `node.peers`: the system of a node, of which `node.system` is the name."""

    type: str = ""
    """Node type of this node; empty for the first type. Without configured types there are `node`,
    which is reached by multicast, and `unicast`, which is the default of nodes with seeds."""
    types: tuple[NodeTypeConfig, ...] = ()
    seeds: tuple[str, ...] = ()
    """Hosts at which other nodes may be: HOST or HOST:PORT. All of them may have the same list."""
    seed_group: str = ""
    """Multicast group in which other nodes are searched for: ADDRESS:PORT. Empty for 239.192.77.1
    or, with seeds, for no search; `none` for no search."""
    alone_timeout_s: float = 0.0
    """How long a node waits for others before it forms a system alone; 0 for twice the time after
    which nodes of its type are considered dead."""
    clock_skew_s_max: float = 60.0
    """A node whose clock differs by more may not join."""
    rejoin: Rejoin = Rejoin.AUTO
    """What a node does that the system has excluded: `auto` joins again with a new id, `manual`
    ends the program."""
    black_list: str = ""
    """File of runs of the system that this node never joins: the hexadecimal incarnation of
    `skerry picture` on each line. Empty for none."""
    key_file: str = ""
    """File with the keys that seal all datagrams between nodes; empty for that of
    `node.distributor`."""
    freshness_s: float = 300.0
    """Largest difference between now and the time of a sealed datagram; 0 for no limit."""
    link: LinkConfig = field(default_factory=LinkConfig)

    def __post_init__(self) -> None:
        SystemNetworkConfig.__post_init__(self)
        for key, value, low, high in (
            ("alone_timeout_s", self.alone_timeout_s, 0, 86_400),
            ("clock_skew_s_max", self.clock_skew_s_max, 0.001, 1e9),
            ("freshness_s", self.freshness_s, 0, 1e9),
            ("number of seeds", len(self.seeds), 0, _SEED_COUNT_MAX),
        ):
            if not low <= value <= high:
                raise ValueError(f"{key} = {value:g} is not between {low:g} and {high:g}")
        group = self.seed_group_address()
        types = self.node_types()
        types.named(self.type_name)
        groups = [one.group(Channel.CONTROL) for one in types]
        for used in (group, *groups):
            if used is not None:
                self._check_version(used, f"the group {used.host}")
        for seed in self.seed_addresses():
            if seed.address is not None:
                self._check_version(seed.address, f"the seed {seed.host}")
        for one in types:
            if group is not None and group == one.group(Channel.DATA):
                raise ValueError(
                    f"seed_group = {self.seed_group!r} is the data group of type {one.name}; nodes"
                    " search in a group of the control channel, or in one of its own"
                )

    def _check_version(self, address: Address, what: str) -> None:
        if (":" in address.host) != self.is_v6:
            versions = ("IPv6", "IPv4") if self.is_v6 else ("IPv4", "IPv6")
            detail = f"the addresses of this node are {versions[0]}, but {what} is {versions[1]}"
            raise ValueError(f"{detail}; a system uses one of them")

    @property
    def type_name(self) -> str:
        if self.type:
            return self.type
        if self.types:
            return self.types[0].name
        return _UNICAST_TYPE.name if self.seeds else _MULTICAST_TYPE.name

    def node_types(self) -> NodeTypes:
        """The node types with their groups. Raises ConfigError if they contradict each other."""
        made: list[NodeType] = []
        for position, one in enumerate(self.types or (_MULTICAST_TYPE, _UNICAST_TYPE), start=1):
            if one.multicast and not one.multicast_control:
                control, data = (
                    default_group(position, self.domain, channel, is_v6=self.is_v6)
                    for channel in (Channel.CONTROL, Channel.DATA)
                )
                made.append(replace(one, multicast_control=control, multicast_data=data))
            else:
                made.append(one)
        return NodeTypes(made)

    def seed_group_address(self) -> Address | None:
        """The group in which other nodes are searched for; None for no search."""
        if self.seed_group == _NONE or (self.seeds and not self.seed_group):
            return None
        default = default_group(1, self.domain, Channel.CONTROL, is_v6=self.is_v6)
        return Address(*parse_group(self.seed_group or default, key="node.peers.seed_group"))

    def seed_addresses(self) -> list[Seed]:
        """The seeds, with the first port of the domain where none is given."""
        port = unicast_port(self.domain, Channel.CONTROL, 0)
        return [parse_seed(text, port=port) for text in self.seeds]


def parse_seed(text: str, *, port: int) -> Seed:
    """The host that a text names, with this port if it names none. Raises ConfigError."""
    host, given, detail = "", 0, f"{text!r} is not a host, or a host and a port"
    if not set(text) & set("*?/ "):
        try:
            host, given = split_address(text, key=_SEEDS)
        except ConfigError as error:
            detail = error.detail
    if not host:
        hint = "write 192.168.1.5, server-1:26660 or [fd00::5]:26660"
        raise ConfigError(key=_SEEDS, detail=detail, hint=hint)
    return Seed(host=host, port=given or port)


def system_config(
    config: NodePeersConfig, *, system: str, name: str, node_id: int, group_key_file: str = ""
) -> SystemConfig:
    """The parameters of the machine; it reads the key file and the black list.

    `group_key_file` is the key file of the multicast group of the node. Raises ConfigError.
    """
    nowhere = Address("")
    known = [seed.address for seed in config.seed_addresses()]
    group = config.seed_group_address()
    key_file = config.key_file or group_key_file
    key = "node.peers.key_file" if config.key_file else "node.distributor.key_file"
    try:
        return SystemConfig(
            system=system,
            name=name,
            node_types=config.node_types(),
            type_name=config.type_name,
            control=nowhere,
            data=nowhere,
            seeds=tuple(address for address in known if address is not None),
            seed_groups=() if group is None else (group,),
            link=config.link,
            alone_timeout_ns=round(config.alone_timeout_s * _SECOND),
            clock_skew_ns_max=round(config.clock_skew_s_max * _SECOND),
            rejoin=config.rejoin,
            black_list=read_black_list(config.black_list),
            keys=read_keys(key_file, key=key) if key_file else None,
            freshness_ns=round(config.freshness_s * _SECOND),
            node_id=node_id,
        )
    except ValueError as error:
        raise ConfigError(key="node.peers", detail=str(error)) from None


def read_black_list(file: str) -> frozenset[int]:
    """The incarnations in a file. Raises ConfigError if it is unreadable or invalid."""
    if not file:
        return frozenset()
    key, origin = "node.peers.black_list", f"file {file}"
    try:
        text = read_whole(file, bytes_max=CONFIG_BYTES_MAX).decode()
    except OSError as error:
        raise ConfigError(key=key, origin=origin, detail=error.strerror or str(error)) from None
    except (UnicodeDecodeError, ValueError) as error:
        raise ConfigError(key=key, origin=origin, detail=str(error)) from None
    found = set()
    for number, line in enumerate(text.splitlines(), start=1):
        entry = line.partition("#")[0].strip()
        if not entry:
            continue
        try:
            found.add(int(entry, 16))
        except ValueError:
            raise ConfigError(
                key=key,
                origin=origin,
                detail=f"line {number}: {entry!r} is not a hexadecimal number",
                hint="`skerry picture` shows the incarnation of a system",
            ) from None
    return frozenset(found)
