"""Attributes that are replaced for one block."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable

from fuselight.adapters.torch_api.patching import patched, wrapped


def test_an_attribute_is_restored_or_removed_when_the_block_raises() -> None:
    owner = types.SimpleNamespace(kept=1)
    with contextlib.suppress(KeyError), patched(owner, "kept", 2), patched(owner, "added", 3):
        assert (owner.kept, owner.added) == (2, 3)
        raise KeyError
    assert vars(owner) == {"kept": 1}


def test_an_attribute_that_other_code_replaced_meanwhile_stays() -> None:
    owner = types.SimpleNamespace(name=1)
    with patched(owner, "name", 2):
        owner.name = 3
    assert owner.name == 3


def test_a_wrapped_method_gets_the_original_and_its_receiver() -> None:
    class Counter:
        total = 0

        def add(self, count: int) -> int:
            self.total += count
            return self.total

    def twice(real: Callable[..., int], self: Counter, count: int) -> int:
        return real(self, 2 * count)

    original = Counter.add
    with wrapped(Counter, "add", twice):
        assert Counter().add(count=3) == 6
        assert Counter.add.__name__ == "add"
    assert Counter.add is original
