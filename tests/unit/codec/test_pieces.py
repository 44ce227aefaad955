"""Encoded objects without decoding: pieces, keys, the form an encoder writes, and merging."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cbor2
import pytest

from skerry.codec import pieces
from skerry.codec.pieces import LARGE_BYTES, cut, merge, merge_pieces, split, split_whole
from skerry.errors import DecodeError, EncodeError
from skerry.limits import PAYLOAD_BYTES_MAX
from skerry.objects.base import codec_of, key_of
from skerry.objects.typeset import TypeSet, define_types

MakeCodec = Callable[[Any], Any]


def everything(*names: str) -> int:
    return sum(1 << {"text": 3, "second": 7, "first": 2, "value": 1}[name] for name in names)


# -- pieces


def test_pieces_are_the_encoded_values(types: TypeSet) -> None:
    obj = types.Keyed(text="t", first=300, value=0.5)
    parts = pieces.split(types.Keyed._codec.plan, obj.encode(), 0)
    assert parts.present == obj.attributes
    assert parts.value(3) == b"at"
    assert parts.value(2) == b"\x19\x01\x2c"
    assert parts.value(1) == cbor2.dumps(0.5)
    assert parts.value(7) is None
    assert parts.value(31) is None
    assert parts.is_canonical
    assert parts.stop == len(obj.encode())


def test_a_piece_of_the_highest_tag(types: TypeSet) -> None:
    data = types.Everything(floats=[0.5], b=True).encode()
    parts = pieces.split(types.Everything._codec.plan, data, 0)
    assert parts.present == 1 << 31 | 1 << 1
    assert parts.value(31) == cbor2.dumps([0.5])


def test_pieces_are_found_behind_a_header(types: TypeSet) -> None:
    plan = types.Single._codec.plan
    parts = pieces.split(plan, b"\xff\xff\xa1\x01\x05\xff", 2)
    assert (parts.value(1), parts.stop) == (b"\x05", 5)
    with pytest.raises(DecodeError, match="1 bytes follow the object at byte 3"):
        pieces.split_whole(plan, b"\xa1\x01\x05\xff")


OTHER_FORMS = [
    ("another order", "a202010361" + "74"),
    ("a longer count", "b802036174" + "0201"),
    ("a longer tag", "a2036174" + "180201"),
    ("a longer number", "a2036174" + "021801"),
    ("a longer length", "a203780174" + "0201"),
    ("an unknown tag", "a3036174" + "020118640f"),
    ("a small unknown tag", "a300f6036174" + "0201"),
]


@pytest.mark.parametrize(("name", "data"), OTHER_FORMS)
def test_other_forms_become_the_one_an_encoder_writes(
    make_codec: MakeCodec, types: TypeSet, name: str, data: str
) -> None:
    codec = make_codec(types.Keyed)
    obj = types.Keyed(text="t", first=1)
    assert codec.decode(bytes.fromhex(data)) == obj
    assert not codec.split(bytes.fromhex(data)).is_canonical, name
    assert codec.normalize(bytes.fromhex(data)) == obj.encode()


@pytest.mark.parametrize(
    "value",
    [
        "1818a2026178" + "01f5",
        "1818a201f5" + "0900",
        "1818b80101f5",
        "1819" + "811801",
        "1819" + "980105",
        "181a81a2026178" + "01f5",
        "181b81190002",
        "181c81780161",
        "181f81f93e00",
        "0cfa3fc00000",
        "0bf93e00",
        "10f93e00",
        "0d780161",
        "0e580161",
        "0f5810" + "00" * 16,
        "131801",
        "171801",
        "1482780161" + "40",
        "14826161" + "5800",
        "1582780161" + "80",
        "041800",
        "0338" + "05",
    ],
)
def test_every_value_has_one_form(make_codec: MakeCodec, types: TypeSet, value: str) -> None:
    codec = make_codec(types.Everything)
    data = b"\xa1" + bytes.fromhex(value)
    assert not codec.split(data).is_canonical
    normal = codec.normalize(data)
    assert normal == codec.encode(codec.decode(data))
    assert normal != data
    assert codec.split(normal).is_canonical


def test_canonical_bytes_are_returned_unchanged(make_codec: MakeCodec, types: TypeSet) -> None:
    data = types.Keyed(text="t", first=1).encode()
    assert make_codec(types.Keyed).normalize(data) is data


@pytest.mark.slow
def test_a_form_that_grows_past_the_limit_is_refused(make_codec: MakeCodec) -> None:
    cls = define_types("struct Floats { 1: vector<float64> x; 2: bytes filler; }").Floats
    count = 1000
    filler = bytes(PAYLOAD_BYTES_MAX - 6 * count)
    data = b"\xa2\x01\x99" + count.to_bytes(2, "big") + b"\xf9\x3e\x00" * count
    data += b"\x02\x5a" + len(filler).to_bytes(4, "big") + filler
    codec = make_codec(cls)
    assert codec.split(data).present == 6
    with pytest.raises(EncodeError, match=f"the limit is {PAYLOAD_BYTES_MAX}"):
        codec.normalize(data)


# -- keys


def test_the_key_of_bytes_is_the_key_of_the_object(make_codec: MakeCodec, types: TypeSet) -> None:
    codec = make_codec(types.Keyed)
    for obj in (
        types.Keyed(first=1, second="s", text="t"),
        types.Keyed(first=2**32 - 1),
        types.Keyed(),
    ):
        data = obj.encode()
        assert codec.key(data) == key_of(obj)
        assert codec.key_of(codec.split(data)) == key_of(obj)


def test_a_key_does_not_depend_on_the_form(make_codec: MakeCodec, types: TypeSet) -> None:
    codec = make_codec(types.Keyed)
    data = bytes.fromhex("b80307780173" + "1802190001" + "09820102")
    with pytest.raises(DecodeError, match="Keyed"):
        codec.key(data[:-1])
    assert codec.key(data) == key_of(types.Keyed(first=1, second="s"))


def test_only_an_object_of_the_type_has_a_key(make_codec: MakeCodec, types: TypeSet) -> None:
    with pytest.raises(DecodeError, match=r"Keyed\.value: expected float64"):
        make_codec(types.Keyed).key(cbor2.dumps({2: 1, 7: "s", 1: 5}))


# -- merge


@pytest.mark.parametrize(
    ("stored", "update", "named", "merged"),
    [
        ({"text": "a", "value": 1.0}, {"text": "b"}, ["text"], {"text": "b", "value": 1.0}),
        ({"text": "a", "value": 1.0}, {}, ["text"], {"value": 1.0}),
        ({"text": "a"}, {"value": 2.0}, ["value"], {"text": "a", "value": 2.0}),
        ({"text": "a"}, {"text": "b", "value": 2.0}, [], {"text": "a"}),
        ({"text": "a"}, {"text": "b", "value": 2.0}, ["value"], {"text": "a", "value": 2.0}),
        ({}, {}, ["text", "value"], {}),
        ({"text": "a", "value": 1.0}, {}, ["text", "value", "first", "second"], {}),
    ],
)
def test_an_update_changes_what_its_attributes_name(
    make_codec: MakeCodec,
    types: TypeSet,
    stored: dict[str, Any],
    update: dict[str, Any],
    named: list[str],
    merged: dict[str, Any],
) -> None:
    key = {"first": 1, "second": "s"}
    codec = make_codec(types.Keyed)
    result = codec.merge(
        types.Keyed(**key, **stored).encode(),
        types.Keyed(**key, **update).encode(),
        everything(*named),
    )
    assert result == types.Keyed(**key, **merged).encode()


def test_keys_never_change(make_codec: MakeCodec, types: TypeSet) -> None:
    stored = types.Keyed(first=1, second="s", text="a")
    update = types.Keyed(first=2, text="b")
    for named in (-1, 0xFFFFFFFE, everything("first", "second", "text")):
        result = make_codec(types.Keyed).merge(stored.encode(), update.encode(), named)
        assert result == types.Keyed(first=1, second="s", text="b").encode()


def test_attributes_of_no_field_mean_nothing(make_codec: MakeCodec, types: TypeSet) -> None:
    stored = types.Keyed(first=1, second="s", text="a").encode()
    update = types.Keyed(first=1, second="s").encode()
    assert make_codec(types.Keyed).merge(stored, update, 1 << 9 | 1 << 31 | 1) == stored


def test_structs_and_vectors_are_replaced_whole(make_codec: MakeCodec, types: TypeSet) -> None:
    stored = types.Everything(inner=types.Inner(flag=True, label="x"), numbers=[1, 2, 3], b=True)
    update = types.Everything(inner=types.Inner(high=7), numbers=[4])
    result = make_codec(types.Everything).merge(stored.encode(), update.encode(), update.attributes)
    merged = types.Everything(inner=types.Inner(high=7), numbers=[4], b=True)
    assert result == merged.encode()


def test_a_singleton_is_merged_too(make_codec: MakeCodec, types: TypeSet) -> None:
    result = make_codec(types.Singleton).merge(b"\xa1\x01ax", b"\xa1\x02\x05", 4)
    assert result == types.Singleton(text="x", count=5).encode()


def test_a_merged_object_is_in_canonical_form(make_codec: MakeCodec, types: TypeSet) -> None:
    codec = make_codec(types.Keyed)
    stored = cbor2.dumps({2: 1, 7: "s", 3: "old", 99: "unknown"})
    update = bytes.fromhex("a301f93e000961780201")
    result = codec.merge(stored, update, everything("value"))
    assert result == types.Keyed(first=1, second="s", text="old", value=1.5).encode()


def test_only_objects_of_the_type_are_merged(make_codec: MakeCodec, types: TypeSet) -> None:
    codec = make_codec(types.Keyed)
    good = types.Keyed(first=1, second="s").encode()
    for stored, update in (
        (good, b"\xa1\x01\x05"),
        (b"\xa1\x01\x05", good),
        (good, good + b"\x00"),
    ):
        with pytest.raises(DecodeError):
            codec.merge(stored, update, 0)


@pytest.mark.slow
def test_an_object_grows_to_the_limit_and_no_further(make_codec: MakeCodec) -> None:
    cls = define_types("struct Two { 1: bytes a; 2: bytes b; }").Two
    codec = make_codec(cls)
    stored = cls(a=bytes(6 * 2**20)).encode()
    fitting = PAYLOAD_BYTES_MAX - len(stored) - 6
    result = codec.merge(stored, cls(b=bytes(fitting)).encode(), 4)
    assert len(result) == PAYLOAD_BYTES_MAX
    with pytest.raises(EncodeError) as caught:
        codec.merge(stored, cls(b=bytes(fitting + 1)).encode(), 4)
    size = PAYLOAD_BYTES_MAX + 1
    assert caught.value.detail == f"{size} bytes encoded, the limit is {PAYLOAD_BYTES_MAX}"


# -- cutting and merging what was cut up already


@pytest.mark.parametrize(
    ("named", "left"),
    [
        (["text"], {"text": "a"}),
        (["first", "text"], {"first": 1, "text": "a"}),
        ([], {}),
        (
            ["first", "second", "text", "value"],
            {"first": 1, "second": "s", "text": "a", "value": 2},
        ),
    ],
)
def test_an_object_is_cut_to_the_fields_of_a_mask(
    types: TypeSet, named: list[str], left: dict[str, Any]
) -> None:
    plan = codec_of(types.Keyed).plan
    found = split(plan, types.Keyed(first=1, second="s", text="a", value=2.0).encode(), 0)
    assert cut(plan, found, everything(*named)) == types.Keyed(**left).encode()


def test_a_mask_may_name_absent_and_undefined_tags(types: TypeSet) -> None:
    plan = codec_of(types.Keyed).plan
    found = split(plan, types.Keyed(first=1, second="s").encode(), 0)
    assert cut(plan, found, -1) == found.data
    assert cut(plan, found, ~everything("text")) == found.data
    assert cut(plan, found, 1 << 31) == b"\xa0"


def test_a_cut_object_is_in_canonical_form(types: TypeSet) -> None:
    plan = codec_of(types.Keyed).plan
    odd = types.Keyed(first=1, second="s").encode()
    found = split(plan, b"\xb8" + bytes([odd[0] & 0x1F]) + odd[1:], 0)
    assert not found.is_canonical
    assert cut(plan, found, -1) == odd


def test_pieces_are_merged_as_their_bytes_are(types: TypeSet) -> None:
    plan = codec_of(types.Keyed).plan
    stored = types.Keyed(first=1, second="s", text="a", value=1.0).encode()
    update = types.Keyed(first=1, second="s", text="b").encode()
    for named in (0, everything("text"), everything("text", "value"), -1):
        result = merge_pieces(plan, stored, split(plan, update, 0), named)
        assert result == merge(plan, stored, update, named)


def test_an_undescribed_value_of_the_highest_tag_is_kept() -> None:
    boat = define_types("struct Boat { 1: [key] uint32 id; 2: bool a; }").Boat
    plan = codec_of(boat).plan
    stored = bytes.fromhex("a3 01 01 02 f5 18 1f 18 2a")
    parts = split(plan, stored, 0)
    assert (parts.present, parts.unknown) == (1 << 31 | 0b110, 1 << 31)
    assert cut(plan, parts, -1) == stored
    assert merge(plan, stored, bytes.fromhex("a2 01 01 02 f4"), 0b110) == bytes.fromhex(
        "a3 01 01 02 f4 18 1f 18 2a"
    )
    assert merge(plan, stored, bytes.fromhex("a1 01 01"), 1 << 31) == bytes.fromhex(
        "a2 01 01 02 f5"
    )


# -- vectors


@pytest.mark.parametrize(
    "kind",
    [
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
        *("float16", "float32", "float64", "timepoint", "duration"),
        *("bool", "string", "bytes", "property_set", "Rig", "uuid"),
    ],
)
def test_elements_of_a_vector_are_checked_as_the_decoder_does(kind: str) -> None:
    cls = define_types(
        f"enum Rig {{ 1: a, 23: b, 24: c, 300: d }} struct Row {{ 2: vector<{kind}> v; }}"
    ).Row
    plan = codec_of(cls).plan
    seen = set()
    usual = next(item for item in items() if outcome_of(cls, b"\xa1\x02\x81" + item))
    for item in items():
        for elements in ([item], [usual, item], [usual] * 30 + [item]):
            count = len(elements)
            data = b"\xa1\x02" + (bytes((0x80 + count,)) if count < 24 else b"\x98\x1f")
            data += b"".join(elements)
            is_canonical = outcome_of(cls, data)
            seen.add(is_canonical)
            if is_canonical is None:
                with pytest.raises(DecodeError):
                    split_whole(plan, data)
            else:
                assert split_whole(plan, data).is_canonical == is_canonical, data.hex()
    assert seen == {None, True, False} or kind in ("bool", "uuid", "float16")


def items() -> list[bytes]:
    """Items with each first byte, and with arguments at the bounds of shorter heads."""
    arguments = (0, 16, 23, 24, 127, 128, 255, 256, 300, 32767, 32768, 65535)
    found: dict[bytes, None] = {}
    for first in range(256):
        size = {24: 1, 25: 2, 26: 4, 27: 8}.get(first & 0x1F, 0)
        for argument in [n << shift for n in arguments for shift in (0, 16, 48)]:
            content = b""
            if first >> 5 in (2, 3):
                content = b"x" * (argument % 256 if size else first & 0x1F)
            head = bytes((first,)) + argument.to_bytes(16, "big")[16 - size :]
            if head[:1] not in (b"\xf9", b"\xfa", b"\xfb") or argument not in NAN_ARGUMENTS:
                found[head + content] = None
    return list(found)


NAN_ARGUMENTS = [n << shift for n in (32767, 65535) for shift in (0, 16, 48)]
"""With a head of a float, numbers that do not keep their bytes when they are decoded."""


def outcome_of(cls: Any, data: bytes) -> bool | None:
    """Whether an object is in the form that the encoder returns; None if it is invalid."""
    try:
        return bool(cls.decode(data).encode() == data)
    except DecodeError:
        return None


# -- large objects


@pytest.fixture
def split_count() -> Callable[[], int]:
    """How many large objects were split since."""
    pieces._recent.pieces = []
    before = pieces._recent.split_count
    return lambda: pieces._recent.split_count - before


SHEET = define_types(
    """
    struct Row { 1: int32 a; 2: int32 b; }
    struct Sheet { 1: [key] uint32 id; 2: vector<uint32> v; 3: string s; 30: vector<Row> rows; }
    """
)
OLDER = define_types(
    """
    struct Row { 1: int32 a; }
    struct Sheet { 1: [key] uint32 id; 3: string s; 30: vector<Row> rows; }
    """
)


def sheet(size: int = LARGE_BYTES, **values: Any) -> bytes:
    return bytes(SHEET.Sheet(id=1, v=[7] * size, **values).encode())


def test_a_large_object_is_split_once(split_count: Callable[[], int]) -> None:
    plan, data = codec_of(SHEET.Sheet).plan, sheet(s="s")
    found = [split(plan, data, 0) for _ in range(3)]
    assert found[0] is found[2]
    assert split_count() == 1
    # By another plan, and with the same bytes elsewhere.
    split(codec_of(OLDER.Sheet).plan, data, 0)
    split(plan, bytes(bytearray(data)), 0)
    assert split_count() == 3
    small = sheet(10)
    assert split(plan, small, 0) is not split(plan, small, 0)
    with pytest.raises(DecodeError):
        split(plan, data[:-1], 0)


@pytest.mark.parametrize("types", [SHEET, OLDER], ids=["known", "unknown"])
@pytest.mark.parametrize("is_canonical", [True, False])
def test_a_merged_large_object_is_not_split_again(
    types: TypeSet, is_canonical: bool, split_count: Callable[[], int]
) -> None:
    plan = codec_of(types.Sheet).plan
    data = sheet(s="s", rows=[SHEET.Row(a=1, b=2)])
    if not is_canonical:
        # A longer head of the key.
        data = data[:2] + b"\x18" + data[2:]
    for number in range(5):
        update = SHEET.Sheet(id=1, s=str(number)).encode()
        data = merge(plan, data, update, 0b1010)
        remembered = split(plan, data, 0)
        assert split_count() == 1
        again = split(plan, bytes(bytearray(data)), 0)
        for name in ("present", "unknown", "is_canonical", "stop"):
            assert getattr(remembered, name) == getattr(again, name), name
        assert [remembered.value(tag) for tag in range(32)] == [
            again.value(tag) for tag in range(32)
        ]
        pieces._recent.split_count -= 1
    assert SHEET.Sheet.decode(data).s == "4"


def test_few_large_objects_are_remembered(split_count: Callable[[], int]) -> None:
    plan = codec_of(SHEET.Sheet).plan
    for _ in range(10):
        split(plan, sheet(), 0)
    assert len(pieces._recent.pieces) == 4
    large = define_types("struct Text { 1: string s; }").Text
    texts = [large(s="x" * 9_000_000).encode() for _ in range(4)]
    for text in texts:
        split(codec_of(large).plan, text, 0)
    assert [found.data for found in pieces._recent.pieces] == texts[:0:-1]
    assert pieces.recent_pieces(texts[0]) is None
    assert pieces.recent_pieces(texts[3]) is not None
    pieces._recent.pieces = []
