"""The configuration of a mapping."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from skerry.apps.portal.mapping_config import (
    MappingConfig,
    PortalMappingConfig,
    make_mapping,
    mapping_types,
)
from skerry.apps.portal.program import run_mapping
from skerry.errors import ConfigError
from skerry.protocol.portal.config import PortalClientConfig
from skerry.protocol.portal.mapping.rules import PortalRule
from tests.unit.protocol.portal.mapping.descriptors import descriptor_set


def test_files_give_messages_and_types(tmp_path: Path) -> None:
    (tmp_path / "fleet.desc").write_bytes(descriptor_set())
    (tmp_path / "fleet.dots").write_text("enum E { 1: a } struct Vessel { 1: [key] uint32 mmsi; }")
    config = MappingConfig(
        descriptors=(tmp_path / "fleet.desc",),
        types=(tmp_path / "fleet.dots",),
        rules=(
            PortalRule(scheme="PROTOBUF", type="fleet.Report"),
            PortalRule(scheme="JSON", object="Vessel"),
        ),
    )
    assert list(mapping_types(config)) == ["Vessel"]
    assert make_mapping(config).levels == [(None, None, None)]
    assert mapping_types(MappingConfig()) == {}


@pytest.mark.parametrize(
    ("config", "key"),
    [
        (MappingConfig(descriptors=(Path("absent"),)), "node.portal.mapping"),
        (MappingConfig(types=(Path("absent.dots"),)), "node.portal.mapping"),
        (
            MappingConfig(rules=(PortalRule(scheme="PROTOBUF", type="no.Such"),)),
            "node.portal.mapping.rules",
        ),
    ],
)
def test_faults_name_the_section(config: MappingConfig, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_mapping(config, "node.portal.mapping")
    assert caught.value.key.startswith(key.removesuffix(".rules"))


def test_a_node_needs_rules() -> None:
    with pytest.raises(ValueError, match="no rules"):
        PortalMappingConfig(node="tcp://127.0.0.1:1")
    with pytest.raises(ConfigError):
        PortalMappingConfig(node="no endpoint")


async def faulty() -> None:
    rules = (PortalRule(scheme="PROTOBUF", type="no.Such"),)
    config = PortalMappingConfig(rules=rules)
    await run_mapping(config, PortalClientConfig(), report=lambda _text: None)


def test_faulty_rules_end_the_program() -> None:
    with pytest.raises(ConfigError, match=r"no\.Such"):
        asyncio.run(faulty())
