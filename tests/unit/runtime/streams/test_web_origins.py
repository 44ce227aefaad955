"""Which web pages may connect: those of the same host and the configured ones."""

from __future__ import annotations

import pytest

from skerry.runtime.streams.web_origins import ANY_ORIGIN, host_fault, origin_fault, own_names

OWN = {"harbour"}


def fault(origin: str | None, host: str | None, *allowed: str) -> str | None:
    return origin_fault(
        origins=[] if origin is None else [origin],
        hosts=[] if host is None else [host],
        allowed=allowed,
        own_names=OWN,
    )


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        (None, "127.0.0.1:11233"),
        (None, "evil.example"),
        (None, None),
        ("http://127.0.0.1", "127.0.0.1:11233"),
        ("http://127.0.0.1:8080", "127.0.0.1:11233"),
        ("http://localhost:8080", "LOCALHOST:11233"),
        ("https://192.0.2.7", "192.0.2.7"),
        ("http://[::1]:8080", "[::1]:11233"),
        ("http://harbour", "harbour:11233"),
    ],
)
def test_pages_of_the_same_host_and_programs_may_connect(
    origin: str | None, host: str | None
) -> None:
    assert fault(origin, host) is None


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://evil.example", "127.0.0.1:11233"),
        ("http://localhost", "127.0.0.1:11233"),
        ("http://127.0.0.1.evil.example", "127.0.0.1:11233"),
        ("http://127.0.0.1@evil.example", "127.0.0.1:11233"),
        ("null", "127.0.0.1:11233"),
        ("", "127.0.0.1:11233"),
        ("", ""),
        ("file://", ""),
        ("http://[::1", "[::1:11233"),
        ("http://127.0.0.1", None),
    ],
)
def test_other_pages_may_not(origin: str, host: str | None) -> None:
    assert fault(origin, host)


def test_foreign_name_that_resolves_to_this_computer_is_not_the_same_host() -> None:
    assert fault("http://evil.example", "evil.example:11233") is not None


def test_configured_pages_may_connect() -> None:
    page = "https://console.example"
    assert fault(page, "127.0.0.1", page) is None
    assert fault("https://console.example:444", "127.0.0.1", page) is not None
    assert fault("http://console.example", "127.0.0.1", page) is not None
    assert fault("null", "127.0.0.1", "null") is None
    assert fault("http://evil.example", "127.0.0.1", ANY_ORIGIN) is None


def test_two_origins_are_rejected() -> None:
    page = "http://127.0.0.1"
    two = origin_fault(origins=[page, page], hosts=["127.0.0.1"], allowed=(), own_names=OWN)
    assert two == "the request must have one Origin and one Host"


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "[::1]:80", "localhost:11237", "Harbour", "10.1.2.3"]
)
def test_request_for_this_computer_is_allowed(host: str) -> None:
    assert host_fault([host], OWN) is None
    assert host_fault([], OWN) is None


@pytest.mark.parametrize("host", ["evil.example", "harbour.evil.example", "", "[::1", "a b"])
def test_request_for_another_name_is_rejected(host: str) -> None:
    assert host_fault([host], OWN) == f"{host!r} is not a name of this computer"
    assert host_fault(["localhost", host], OWN) == "the request has more than one Host"


def test_names_of_this_computer_are_known() -> None:
    assert any(name.endswith(".local") for name in own_names())
