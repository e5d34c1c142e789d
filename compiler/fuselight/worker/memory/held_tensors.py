"""Tensors that a step, or a program, leaves in memory since a name of the user's code holds them.

Invariant: a tensor that the backward needs is never said to be held by a name alone; where it is not known what the
backward needs, as under a hook of saved tensors, no tensor is.
"""

from __future__ import annotations

import itertools
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from fuselight.adapters.torch_api.saved_tensors import saved_by_graph
from fuselight.adapters.torch_api.storages import Storage, StorageTracker
from fuselight.shared.report import OF_GRAPH, HolderGrowth, MemoryUse
from fuselight.worker.child.tensor_holders import HeldStorages, StorageKey, bytes_of, held_storages
from fuselight.worker.memory.origins import StorageOrigin

_OWNED = frozenset({"parameters", "gradients", "optimizer"})
"""Kinds of names whose tensors have a use of their own."""
LEAST_GROWTH = 4096
"""Bytes: the number of a loss in a list is not worth a line."""
_GROWS = 3
"""Sizes of a name that show a growth: a cache that is filled once does not grow twice."""

HolderKey = tuple[str, str, str]


def program_names(
    target: Any, roots: Sequence[str], frames: Iterable[types.FrameType] = ()
) -> list[HeldStorages]:
    """Each name that leads to tensors, but to those of modules and optimizers."""
    try:
        return [held for held in held_storages(frames, roots, target) if held.kind not in _OWNED]
    except Exception:  # noqa: BLE001 - objects of the user's may be anything, and an estimate is complete without names
        return []


def label_held(
    tracker: StorageTracker[StorageOrigin], names: Iterable[HeldStorages], outputs: Sequence[torch.Tensor]
) -> None:
    """Give the use `held` to what a name keeps and the backward of `outputs` does not need."""
    saved = saved_by_graph(outputs)
    if not saved.is_complete:
        return
    needed = {id(storage) for storage in tracker.storages_of([*saved.tensors, *outputs])}
    for storage, holder in holders_of(tracker, names):
        if id(storage) not in needed:
            # What the backward of an earlier step needed was not held by a name at that step's peak.
            was_needed = storage.use == MemoryUse.SAVED.value
            set_held(tracker.renewed(storage) if was_needed else storage, holder)


def holders_of(
    tracker: StorageTracker[StorageOrigin], names: Iterable[HeldStorages]
) -> Iterator[tuple[Storage[StorageOrigin], str]]:
    """What names lead to, each with the first name, which may lead to it by a graph."""
    known: set[int] = set()
    for held in names:
        for tensors, holder in ((held.storages, held.name), (held.graphs, f"{OF_GRAPH}{held.name}")):
            for storage in tracker.storages_of(tensors.values()):
                if id(storage) not in known:
                    known.add(id(storage))
                    yield storage, holder


def set_held(storage: Storage[StorageOrigin], holder: str) -> None:
    """Note who holds what has no other use."""
    if storage.use in {"", MemoryUse.SAVED.value, MemoryUse.HELD.value}:
        storage.use = MemoryUse.HELD.value
        storage.place = (storage.place or StorageOrigin(None, ""))._replace(holder=holder)


def note_left(
    tracker: StorageTracker[StorageOrigin], names: Iterable[HeldStorages], known: set[StorageKey]
) -> None:
    """Follow what names hold that an earlier step has made: `known` existed before it."""
    for held in names:
        for tensors, holder in ((held.storages, held.name), (held.graphs, f"{OF_GRAPH}{held.name}")):
            tracker.note(
                [tensor for key, tensor in tensors.items() if key not in known],
                MemoryUse.HELD,
                StorageOrigin(held.line(), "", holder),
            )


def keys_of(names: Iterable[HeldStorages]) -> set[StorageKey]:
    """What tells their storages from others, as long as these are alive."""
    return {key for held in names for key in (*held.storages, *held.graphs)}


class GrowingNames:
    """The bytes of each name after each step."""

    def __init__(self) -> None:
        self._sizes: dict[HolderKey, list[int]] = {}
        self._last: list[tuple[HolderKey, HeldStorages]] = []
        self._steps = 0

    def add(self, names: Iterable[HeldStorages]) -> None:
        """Note what names hold after a step, or before the first one."""
        for held in names:
            key = held.name, held.kind, held.scope
            sizes = self._sizes.setdefault(key, [0] * self._steps)
            sizes.append(bytes_of(held.storages) + bytes_of(held.graphs))
            if key not in {known for known, _ in self._last}:
                self._last.append((key, HeldStorages(*key, path=held.path, within=held.within)))
        self._steps += 1
        for sizes in self._sizes.values():
            sizes.extend([0] * (self._steps - len(sizes)))

    def may_grow(self) -> bool:
        """Whether a name has changed its size in the last step, and has not grown in the one before."""
        rows = [self._sizes[key][-_GROWS:] for key, held in self._last if _outlives(held)]
        return any(abs(row[-1] - row[-2]) >= LEAST_GROWTH and not row[-3] < row[-2] < row[-1] for row in rows)

    def growth(self, least: int) -> tuple[HolderGrowth, ...]:
        """The names that have grown by `least` bytes or more in each of the last steps."""
        grown = []
        for key, held in self._last:
            sizes = self._sizes[key][-_GROWS:]
            steps = [after - before for before, after in itertools.pairwise(sizes)]
            if _outlives(held) and len(sizes) == _GROWS and min(steps) >= max(least, 1):
                kind = "attribute" if held.is_variable else held.kind
                grown.append(HolderGrowth(held.name, kind, held.scope, steps[-1], held.line()))
        return tuple(sorted(grown, key=lambda row: -row.bytes))


def _outlives(held: HeldStorages) -> bool:
    """Whether a name is no variable of a function, whose tensor may be of any size in each step."""
    return not held.is_variable or held.name.startswith("self.")
