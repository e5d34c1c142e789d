"""What a verification reads of plain objects and hooks around one call: all of the changes, and bounded."""

from __future__ import annotations

import collections
import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from fuselight.adapters.torch_api.dynamo.installed_globals import globals_of_dynamo
from fuselight.capture.calls.calls import Prepared
from fuselight.capture.calls.tensors import tensors_in, with_tensors
from fuselight.worker.live import reachable
from fuselight.worker.live.call_records import RecordingStream, record_call
from fuselight.worker.live.call_traits import ChangedAttributes, HookCounts
from fuselight.worker.live.reachable import ReachableState

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


class Settings(dict[str, Any]):
    """A dict with attributes that refuses new keys once it is complete, as configurations of libraries do."""

    def __init__(self, depth: int, **values: Any) -> None:
        super().__init__(values)
        self.depth = depth

    def __setitem__(self, key: str, value: Any) -> None:
        raise TypeError("complete")


class Pair(NamedTuple):
    first: Any
    steps: list[int]


class Batch(Pair):
    """A named tuple with attributes."""

    def __new__(cls, first: Any) -> Batch:  # noqa: PYI034 - `Self` is younger than Python 3.10
        return super().__new__(cls, first, [])


class Slots:
    __slots__ = ("__hidden", "empty", "shown")

    def __init__(self, shown: Any) -> None:
        self.shown = shown
        self.__hidden = [0]

    def count(self) -> None:
        self.__hidden[0] += 1


@dataclass(frozen=True)
class Frozen:
    __slots__ = ("inner", "values")
    inner: Any
    values: dict[str, int]


class Names(list[str]):
    owner = "nobody"


def configurations() -> dict[str, Any]:
    names = Names(["a"])
    names.owner = "a"
    batch = Batch(torch.zeros(2))
    batch.tag = 1  # type: ignore[attr-defined]
    return {
        "settings": Settings(2, rate=0.5, weights=torch.zeros(2)),
        "batch": batch,
        "slots": Slots(1),
        "frozen": Frozen(torch.zeros(2), {"a": 1}),
        "names": names,
        "counts": collections.defaultdict(list, a=[torch.zeros(2)]),
        "ordered": collections.OrderedDict(a=1, b=torch.zeros(2)),
        "shape": torch.Size([2, 3]),
    }


def test_each_kind_of_configuration_is_read() -> None:
    kept = configurations()

    def change() -> None:
        kept["settings"].depth += 1
        dict.__setitem__(kept["settings"], "rate", 1.0)
        kept["batch"].tag += 5
        kept["batch"].steps.append(7)
        kept["slots"].shown += 2
        kept["slots"].count()
        kept["frozen"].values["a"] += 3
        kept["names"].owner = "b"

    state = ReachableState(Prepared(torch.relu, (), {}), kept, (str(Path(__file__).parent),))
    change()
    assert state.changes()[1] == {
        "global settings['rate']": "+0.5",
        "global settings.depth": "+1",
        "global batch.tag": "+5",
        "the length of global batch[1]": "+1",
        "global batch[1][+1]": "('int', '7')",
        "global slots.shown": "+2",
        "global slots._Slots__hidden[0]": "+1",
        "global frozen.values['a']": "+3",
        "global names.owner": "('str', \"'b'\")",
    }


def test_each_kind_of_configuration_is_copied_with_other_tensors() -> None:
    given = configurations()
    copied = with_tensors(given, lambda tensor: tensor + 1)
    assert {name: type(value) for name, value in copied.items()} == {
        name: type(value) for name, value in given.items()
    }
    changed = tensors_in(copied)
    assert len(changed) == len(tensors_in(given)) == 5
    assert all(bool((tensor == 1).all()) for tensor in changed)
    assert all(bool((tensor == 0).all()) for tensor in tensors_in(given))
    assert (copied["settings"].depth, copied["settings"]["rate"]) == (2, 0.5)
    assert (copied["batch"].tag, copied["batch"].steps) == (1, [])
    assert copied["frozen"].values == {"a": 1}
    assert copied["frozen"].values is not given["frozen"].values
    assert (copied["names"], copied["names"].owner) == (["a"], "a")
    assert copied["counts"]["new"] == []
    assert list(copied["ordered"]) == ["a", "b"]
    assert copied["shape"] == given["shape"]
    error = FailedError("a", 1)
    assert with_tensors(error, lambda tensor: tensor).detail == 1


@dataclass
class FailedError(Exception):
    reason: str
    detail: int


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
    assert Endless.taken <= 2 * reachable._MAX

    module = torch.nn.Linear(1, 1)
    module.history = values  # type: ignore[assignment]
    Endless.taken = 0
    attributes = ChangedAttributes(Prepared(module, (), {}))
    assert next(attributes.changed(), None) is None
    assert Endless.taken <= 2 * reachable._MAX


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


def test_what_dynamo_keeps_among_the_globals_is_no_change() -> None:
    """Compiled code finds a cached value, such as that of an `lru_cache`, under a global name that torch invents."""

    def changed(names: dict[str, Any], code: object, name: str) -> dict[str, str]:
        prepared = Prepared(_double, (), {})
        state = ReachableState(prepared, names, ())
        hook = torch._dynamo.utils.CleanupHook.create(names, name, val=(True,))
        if code is not None:
            torch._dynamo.utils.CleanupManager.instance[code] = [hook]
        return state.changes()[1]

    codes = [compile("1", "a.py", "eval"), compile("2", "a.py", "eval")]
    assert changed({"is_ready": True}, codes[0], "is_ready_1") == {}
    assert "global is_ready_2[0]" in changed({"is_ready": True}, None, "is_ready_2")


MODULE = """
import functools
import torch

COUNT = 0

@functools.lru_cache
@torch._dynamo.assume_constant_result
def is_ready():
    return True

@torch._dynamo.assume_constant_result
def scales():
    return [2.0, 3.0]

class Scaler(torch.nn.Module):
    @torch._dynamo.assume_constant_result
    def offset(self):
        return 4

    def forward(self, x):
        return x + self.offset()

def forward(x):
    global COUNT
    COUNT = COUNT + 1
    if is_ready():
        x = x * scales()[1]
    return SCALER(x)

SCALER = Scaler()
"""


def test_what_dynamo_notes_at_functions_is_no_change() -> None:
    def helper() -> None:
        pass

    def mark() -> None:
        helper._torchdynamo_disable = True  # type: ignore[attr-defined]
        helper.calls = 1  # type: ignore[attr-defined]

    assert changes(mark, names={"helper": helper}) == {"global helper.calls": "('int', '1')"}


@pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`")
def test_constants_that_a_trace_stores_among_the_globals_are_no_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result of a function marked with `assume_constant_result` gets a global name of torch's, without a hook."""
    (tmp_path / "constants_of_a_trace.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    names = vars(importlib.import_module("constants_of_a_trace"))
    before = names.keys() | set()
    function: Any = torch.compile(names["forward"], backend="eager")
    streams = RecordingStream(sys.stdout), RecordingStream(sys.stderr)
    for shape in ((2,), (3,), (3, 2)):  # each compiles again, and stores its constants again
        prepared = Prepared(function, (torch.ones(shape),), {})
        record, error = record_call(prepared, names, streams, lambda: function(*prepared.args), compiled=True)  # noqa: B023 - called at once
        assert error is None
        assert (record.numbers, record.reached) == ({"global COUNT": "+1"}, {})
    stored = {name for name in names.keys() - before if not name.startswith("__")}
    assert {"is_ready_0", "is_ready_1", "scales_0", "scales_1"} <= stored
    assert stored <= globals_of_dynamo(names)
    names["scales_0"] = [1.0]  # the user's program has taken the name
    assert "scales_0" not in globals_of_dynamo(names)


def _double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def test_only_modules_after_those_of_the_host_are_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("before", "host", "after"):
        module: Any = ModuleType(f"reachable_{name}")
        module.__file__, module.number = str(tmp_path / f"{name}.py"), [0]
        monkeypatch.setitem(sys.modules, module.__name__, module)
    prepared, roots = Prepared(torch.relu, (), {}), (str(tmp_path),)
    known = {
        "": ("before", "host", "after"),
        "reachable_host": ("after",),
        "gone": ("before", "host", "after"),
    }
    for since, names in known.items():
        state = ReachableState(prepared, {}, roots, since=since)
        assert [name for name, _ in state._modules] == [f"reachable_{name}" for name in names]
