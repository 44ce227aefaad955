"""Parameter lists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.errors import DecodeError
from skerry.protocol.machine import Address
from skerry.protocol.rtps.parameters import (
    is_locatable,
    locator,
    locator_address,
    parameter_list,
    read_parameters,
    read_text,
    text,
)


@given(st.dictionaries(st.integers(2, 0xFFFF), st.binary(max_size=50), max_size=10))
def test_a_list_is_read_as_written_with_padding(parameters: dict[int, bytes]) -> None:
    found = read_parameters(parameter_list(parameters.items()))
    assert found == {n: value + bytes(-len(value) % 4) for n, value in parameters.items()}


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(payload: bytes) -> None:
    for read in (read_parameters, read_text, locator_address):
        try:
            read(payload)
        except DecodeError as error:
            assert str(error)


def test_a_list_without_its_end_is_refused() -> None:
    whole = parameter_list([(5, b"abcd")])
    for size in range(len(whole)):
        with pytest.raises(DecodeError):
            read_parameters(whole[:size])


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=30))
def test_a_text_is_read_as_written(value: str) -> None:
    assert read_text(text(value)) == value


@pytest.mark.parametrize("value", [b"", b"\x02\0\0\0a", b"\x02\0\0\0ab", b"\x02\0\0\0\xff\0"])
def test_a_malformed_text_is_refused(value: bytes) -> None:
    with pytest.raises(DecodeError):
        read_text(value)


@pytest.mark.parametrize("address", [Address("10.1.2.3", 26660), Address("fd00::5", 1)])
def test_an_address_is_read_as_written(address: Address) -> None:
    assert is_locatable(address)
    assert locator_address(locator(address)) == address


@pytest.mark.parametrize("address", [Address("harbour", 1), Address("10.1.2.3", 0)])
def test_a_name_or_an_address_without_port_has_no_locator(address: Address) -> None:
    assert not is_locatable(address)
