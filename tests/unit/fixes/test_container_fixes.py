"""Remedies for lists, dictionaries and layouts that vary."""

from __future__ import annotations

import pytest

from fuselight.shared.report import (
    GuardCause,
    GuardFailure,
)
from fuselight_server.fixes.rewrites.families import (
    FixClass,
)
from tests.support.recompilation_fixes import HEAD, offered


def container(cause: GuardCause, name: str, was: str, now: str) -> GuardFailure:
    words = f"key 0 of {name} was {was}, now {now}" if cause is GuardCause.KEYS else f"{name} was {was}"
    return GuardFailure("TYPE_MATCH", name, f"L['{name}']", words, was, now, cause=cause)


LISTS = {
    "return xs[0] + sum(xs)": True,
    "a, b = xs\n    return a + b": True,
    "return sum(x * 2 for x in xs)": True,
    "return torch.cat(xs)": True,
    "xs.append(x)\n    return x": False,
    "xs[0] = x\n    return x": False,
    "xs += [x]\n    return x": False,
    "return x, xs": False,
    "return keep(xs)": False,
    "return xs + [x]": False,
    "return xs[1:]": False,
    "return isinstance(xs, tuple)": False,
}


@pytest.mark.parametrize("body", LISTS)
def test_a_list_is_copied_only_where_it_is_read(body: str) -> None:
    text = f"{HEAD}@torch.compile\ndef f(xs, x):\n    {body}\n"
    remedies = offered(text, container(GuardCause.TYPE, "xs", "list", "tuple"), "f")
    assert list(remedies) == (["list_argument"] if LISTS[body] else [])
    for remedy in remedies.values():  # a named tuple and a subclass stay as they are
        assert "(list(xs) if type(xs) is tuple else xs, x)" in remedy.texts["m.py"]


def test_a_list_that_a_call_makes_is_converted_once() -> None:
    text = f"{HEAD}def f(x, n):\n    return sum(x)\n\n\ndef step(make):\n    return f(make(), 1)\n"
    remedies = offered(text, container(GuardCause.TYPE, "x", "list", "tuple"), "f", caller="    return f(")
    remedy = remedies["list_argument_at_call"]
    assert remedy.title == "Pass `make()` as a list in the call on line 10"
    assert "    return f(list(x) if type(x := make()) is tuple else x, 1)\n" in remedy.texts["m.py"]


DICTS = {
    "return sum(parts.values())": True,
    'return parts["a"] * parts.get("b", 1)': True,
    "return x if 'a' in parts else -x": True,
    "return torch.cat(list(parts.values()))": False,
    "return [v for v in parts.values()]": False,
    "parts['a'] = x\n    return x": False,
    "return parts.pop('a')": False,
    "return parts[x]": False,
    "return next(iter(parts))": False,
}


@pytest.mark.parametrize("body", DICTS)
def test_keys_are_sorted_only_where_their_order_is_free(body: str) -> None:
    text = f"{HEAD}@torch.compile\ndef f(parts, x):\n    {body}\n"
    remedies = offered(text, container(GuardCause.KEYS, "parts", "a", "b"), "f")
    assert list(remedies) == (["sorted_keys"] if DICTS[body] else [])


@pytest.mark.parametrize(
    ("body", "changes"), [("return sum(parts.values())", True), ("return parts['a'] - parts['b']", False)]
)
def test_values_that_are_added_in_another_order_change(body: str, *, changes: bool) -> None:
    text = f"{HEAD}@torch.compile\ndef f(parts, x):\n    {body}\n"
    remedy = offered(text, container(GuardCause.KEYS, "parts", "a", "b"), "f")["sorted_keys"]
    assert ("order of additions" in remedy.changes, remedy.fix_class is FixClass.CHANGES) == (
        changes,
        changes,
    )
    assert "if type(parts) is dict else parts" in remedy.texts["m.py"], "a subclass stays what it is"


STRIDES = {
    "return x + 1": True,
    "x.add_(1)\n    return x + 1": False,
    "return x": False,
    "x += 1\n    return x * 2": False,
}


@pytest.mark.parametrize("body", STRIDES)
def test_a_tensor_is_copied_only_where_it_is_read(body: str) -> None:
    failure = GuardFailure(
        "TENSOR_MATCH", "x", "check_tensor(L['x'], Tensor)", "x.stride", "1", "4", cause=GuardCause.STRIDE
    )
    remedies = offered(f"{HEAD}@torch.compile\ndef f(x):\n    {body}\n", failure, "f")
    assert [remedy.changes for remedy in remedies.values()] == (
        ["the strides of results"] if STRIDES[body] else []
    )
