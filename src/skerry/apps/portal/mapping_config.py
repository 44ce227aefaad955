"""Section `portal.mapping` of the configuration: how publications and objects correspond."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skerry.errors import ConfigError, SchemaError, SkerryError
from skerry.protocol.portal.mapping.portal_mapping import PortalMapping
from skerry.protocol.portal.mapping.rules import PortalRule
from skerry.runtime.goby_logs import load_descriptor_sets
from skerry.runtime.streams.endpoints import parse_endpoint
from skerry.runtime.type_files import load_types
from skerry.schema.model import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingConfig:
    """A mapping between a portal and a space. Without rules there is none."""

    descriptors: tuple[Path, ...] = ()
    """Descriptor sets with the messages of PROTOBUF, made by
    `protoc --include_imports --descriptor_set_out`."""
    types: tuple[Path, ...] = ()
    """Type files (`.dots`) with the types of JSON."""
    rules: tuple[PortalRule, ...] = ()
    """What is mapped; the first rule that matches a publication counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortalMappingConfig(MappingConfig):
    """Section `portal.mapping`: a mapping to the space of a node."""

    node: str = ""
    """Endpoint of the node; empty for SKERRY_ENDPOINT, DOTS_ENDPOINT, or that of this computer."""

    def __post_init__(self) -> None:
        if self.node:
            parse_endpoint(self.node)
            if not self.rules:
                raise ValueError(
                    "node is given, and there are no rules; add [[portal.mapping.rules]]"
                )


def mapping_types(config: MappingConfig) -> dict[str, StructType]:
    """The types of JSON, by name. Raises SchemaError, or LimitExceeded for a large file."""
    if not config.types:
        return {}
    classes = load_types(*config.types)
    found = {name: cls.descriptor for name, cls in classes.items()}
    return {name: type_ for name, type_ in found.items() if isinstance(type_, StructType)}


def make_mapping(config: MappingConfig, section: str = "portal.mapping") -> PortalMapping:
    """The mapping of a section. Raises ConfigError if the files and rules do not fit."""
    try:
        return PortalMapping(
            config.rules, load_descriptor_sets(config.descriptors), mapping_types(config)
        )
    except (SkerryError, OSError) as error:
        hint = getattr(error, "hint", None)
        key = f"{section}.rules" if isinstance(error, SchemaError) else section
        raise ConfigError(key=key, detail=str(error), hint=hint) from error
