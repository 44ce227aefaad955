"""Classes as stubs describe them."""

from __future__ import annotations

import skerry
from skerry.objects.source.source_names import SourceNames
from skerry.objects.source.stub import stub_lines


def described(text: str, name: str) -> list[str]:
    types = skerry.define_types(text)
    names = SourceNames([cls.descriptor for cls in types.values()])
    return stub_lines(types[name].descriptor, names)


def test_members_of_an_enum_have_their_tags_and_documentation() -> None:
    assert described("enum A { 1: red = 9, //< Stop.\n 2: class }", "A") == [
        "class A(skerry.Enum):",
        "    red = 1",
        '    """Stop."""',
        "    class_ = 2",
    ]


def test_ctor_fields_are_positional_in_constructor_and_match() -> None:
    text = "struct A { 1: uint8 a; 2: [ctor] string b; 3: [ctor, default='1'] int8 c; }"
    assert described(text, "A") == [
        "class A(skerry.Struct):",
        "    a: int | None",
        "    b: str | None",
        "    c: int | None",
        "",
        '    __match_args__ = ("b", "c")',
        "",
        "    def __init__(",
        "        self,",
        "        b: str | None = None,",
        "        c: int | None = ...,",
        "        *,",
        "        a: int | None = None,",
        "    ) -> None: ...",
    ]


def test_every_kind_has_the_type_of_its_values() -> None:
    text = (
        "struct A { 1: bool a; 2: uint64 b; 3: float16 c; 4: string d; 5: bytes e; 6: uuid f;"
        " 7: timepoint g; 8: steady_timepoint h; 9: duration i; 10: property_set j; 11: any k;"
        " 12: instance_ref l; 13: vector<instance_ref<A>> m; 14: vector<B> n; 15: B o;"
        " 16: int8 p; } enum B { 1: x }"
    )
    types = [line.split(": ")[1] for line in described(text, "A")[1:17]]
    assert [seen.removesuffix(" | None") for seen in types] == [
        "bool",
        "int",
        "float",
        "str",
        "bytes",
        "UUID",
        "float",
        "float",
        "float",
        "skerry.PropertySet",
        "skerry.AnyObject",
        "skerry.Ref",
        "list[skerry.Ref]",
        "list[B]",
        "B",
        "int",
    ]
