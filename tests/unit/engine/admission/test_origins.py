"""Origins: which are local, and which ones a rule names."""

from __future__ import annotations

import pytest

from skerry.engine.admission.origins import INSIDE, Origin, OriginPattern, parse_origin_pattern


def tcp(host: str) -> Origin:
    return Origin(kind="tcp", host=host)


@pytest.mark.parametrize(
    "origin",
    [
        INSIDE,
        Origin(kind="unix"),
        tcp("127.0.0.1"),
        tcp("127.8.9.1"),
        tcp("::1"),
        tcp("::ffff:127.0.0.1"),
        Origin(kind="websocket", host="127.0.0.1"),
    ],
)
def test_origins_on_this_computer_are_local(origin: Origin) -> None:
    assert origin.is_local


@pytest.mark.parametrize("host", ["10.0.0.1", "::2", "0.0.0.0", "", "localhost", "127.0.0.1 ", "x"])
def test_other_and_invalid_addresses_are_not_local(host: str) -> None:
    assert not tcp(host).is_local
    assert not Origin(kind="tls", host=host).is_local


@pytest.mark.parametrize(
    ("place", "origin", "is_there"),
    [
        ("", tcp("10.0.0.1"), True),
        ("", Origin(kind="unix"), True),
        ("unix", Origin(kind="unix"), True),
        ("unix", tcp("127.0.0.1"), False),
        ("inside", INSIDE, True),
        ("inside", Origin(kind="unix"), False),
        ("local", INSIDE, True),
        ("local", tcp("127.0.0.1"), True),
        ("local", tcp("10.0.0.1"), False),
        ("10.0.0.0/8", tcp("10.1.2.3"), True),
        ("10.9.9.9/8", tcp("10.1.2.3"), True),
        ("10.0.0.0/8", tcp("11.1.2.3"), False),
        ("10.0.0.0/8", tcp("::ffff:10.1.2.3"), True),
        ("10.0.0.0/8", tcp("::1"), False),
        ("10.0.0.0/8", tcp("what"), False),
        ("10.1.2.3", tcp("10.1.2.3"), True),
        ("10.1.2.3", tcp("10.1.2.4"), False),
        ("fd00::/8", Origin(kind="tls", host="fd00::1"), True),
        ("fe80::/10", tcp("fe80::1%eth0"), True),
        ("0.0.0.0/0", Origin(kind="unix"), False),
        ("0.0.0.0/0", Origin(kind="unix", host="127.0.0.1"), False),
    ],
)
def test_an_origin_pattern_has_the_origins_it_names(
    place: str, origin: Origin, is_there: bool
) -> None:
    assert parse_origin_pattern(place).has(origin) is is_there


def test_an_empty_origin_pattern_has_all_origins() -> None:
    assert parse_origin_pattern("") == OriginPattern()


@pytest.mark.parametrize("text", ["Unix", "10.0.0.0/33", "10.0.0", "host.example", " ", "/8"])
def test_an_invalid_origin_pattern_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"such as 10\.1\.0\.0/16"):
        parse_origin_pattern(text)


@pytest.mark.parametrize(
    ("origin", "share"),
    [
        (Origin(kind="unix"), ""),
        (INSIDE, ""),
        (Origin(kind="tcp", host="10.1.2.3"), "10.1.2.3"),
        (Origin(kind="tls", host="::ffff:10.1.2.3"), "10.1.2.3"),
        (Origin(kind="tcp", host="::1"), "::1"),
        (Origin(kind="websocket", host="2001:db8:0:7:1:2:3:4"), "2001:db8:0:7::/64"),
        (Origin(kind="tcp", host="?"), "?"),
    ],
)
def test_the_usage_of_a_client_counts_for_its_address(origin: Origin, share: str) -> None:
    assert origin.share == share


def test_certificates_and_unix_sockets_are_trusted_at_once() -> None:
    trusted = (Origin(kind="unix"), INSIDE, Origin(kind="tls", host="10.1.2.3", certificate="x"))
    assert all(origin.is_trusted for origin in trusted)
    assert not Origin(kind="tcp", host="127.0.0.1").is_trusted
    assert not Origin(kind="tls", host="127.0.0.1").is_trusted
