"""What a verification reads of plain objects and hooks around one call: all of the changes, and bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from fuselight.target.calls import Prepared
from fuselight.worker import reachable
from fuselight.worker.call_traits import ChangedAttributes, HookCounts
from fuselight.worker.reachable import ReachableState

pytestmark = pytest.mark.torch


def changes(function: Callable[..., Any], *args: Any, names: dict[str, Any] | None = None) -> dict[str, str]:
    prepared = Prepared(torch.relu, args, {})  # not the function: its closure would be read, too
    state = ReachableState(prepared, names or {}, ())
    function(*args)
    return state.changes()[1]


def test_each_of_several_lists_of_the_caller_is_read() -> None:
    def change(*collections: Any) -> None:
        collections[1].append(7)
        collections[2]["a"] += 2

    shown = changes(change, [1], [2], {"a": 1})
    assert set(shown.values()) == {"+1", "('int', '7')", "+2"}


def test_what_is_read_of_a_huge_collection_is_bounded() -> None:
    class Endless(list[int]):
        taken = 0

        def __iter__(self) -> Iterator[int]:
            for item in range(10**9):
                type(self).taken += 1
                yield item

    values = Endless(range(100_000))
    shown = changes(
        lambda: values.append(1), names={"values": values, "words": dict.fromkeys(range(100_000))}
    )
    assert shown == {"the length of global values": "+1"}
    assert Endless.taken <= 2 * reachable._MOST

    module = torch.nn.Linear(1, 1)
    module.history = values  # type: ignore[assignment]
    Endless.taken = 0
    attributes = ChangedAttributes(Prepared(module, (), {}))
    assert next(attributes.changed(), None) is None
    assert Endless.taken <= 2 * reachable._MOST


def test_of_a_large_array_a_sample_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[int] = []
    digest = reachable.digest_of

    def hash_of(data: bytes) -> str:
        hashed.append(len(data))
        return digest(data)

    monkeypatch.setattr(reachable, "digest_of", hash_of)
    array = np.zeros((1000, 1000), dtype=np.uint8)

    def fill() -> None:
        array[:] = 1

    assert len(changes(fill, names={"array": array})) == 1
    assert max(hashed) <= reachable._COPIED


def test_to_read_keys_runs_none_of_the_users_code() -> None:
    class Key:
        def __repr__(self) -> str:
            raise AssertionError("user code ran")

    kept: dict[Any, int] = {Key(): 1, (1, "a"): 2, torch.float32: 3}
    seen = {Key()}

    def change() -> None:
        kept[1, "a"] = 5
        kept[Key()] = 4
        seen.add(Key())

    shown = changes(change, names={"kept": kept, "seen": seen})
    assert shown["global kept[(1, 'a')]"] == "+3"
    assert {"global kept[Key 3]", "the keys of global kept", "global seen"} <= shown.keys()


def test_hooks_of_a_module_that_two_others_hold_are_put_back() -> None:
    inner = torch.nn.Linear(1, 1)
    handle = inner.register_forward_hook(lambda *_: None)
    hooks = dict(inner._forward_hooks)
    counts = HookCounts(Prepared(torch.nn.Sequential(inner), (torch.nn.Sequential(inner),), {}))
    assert dict(inner._forward_hooks) != hooks
    counts.stop()
    assert dict(inner._forward_hooks) == hooks
    handle.remove()
