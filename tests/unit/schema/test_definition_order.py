"""Sorting definitions by the types that they use."""

from __future__ import annotations

from skerry import limits
from skerry.schema.check import sort_by_need, used_names
from skerry.schema.language.parser import parse


def test_a_struct_uses_the_types_that_its_objects_contain() -> None:
    file = parse(
        "struct A { 1: B b; 2: vector<C> c; 3: instance_ref<D> d; 4: [removed] E e; 5: bool f; }"
        "enum B { 1: b }"
    )
    first, second = file.types
    assert used_names(first, {"B", "C", "D", "E"}) == ["B", "C"]
    assert used_names(second, {"B", "C"}) == []


def test_each_name_follows_those_it_uses() -> None:
    order, cycles = sort_by_need({"a": ["b", "c"], "b": ["c"], "c": [], "d": ["a"]})
    assert order == ["c", "b", "a", "d"]
    assert cycles == []


def test_cycles_are_found_and_all_names_are_returned() -> None:
    order, cycles = sort_by_need({"a": ["b"], "b": ["c", "b"], "c": ["a"], "d": ["a"]})
    assert cycles == [["a", "b", "c"], ["b"]]
    assert sorted(order) == ["a", "b", "c", "d"]


def test_the_number_of_cycles_is_limited() -> None:
    count = limits.PROBLEM_COUNT_MAX + 5
    order, cycles = sort_by_need({str(n): [str(n)] for n in range(count)})
    assert cycles == [[str(n)] for n in range(limits.PROBLEM_COUNT_MAX)]
    assert len(order) == count


def test_a_chain_may_be_longer_than_the_recursion_limit() -> None:
    count = 20_000
    uses = {str(n): [str(n + 1)] for n in range(count)}
    uses[str(count)] = []
    order, cycles = sort_by_need(uses)
    assert order[0] == str(count)
    assert len(order) == count + 1
    assert cycles == []
