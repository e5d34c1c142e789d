"""A call that Dynamo traces becomes Python that torch alone runs."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import math
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as programs have it
from torch import nn

from fuselight.adapters.torch_api.dynamo.traced_frames import TracedFrame
from fuselight.worker.repro.code_text import recorded_code
from fuselight.worker.repro.definitions import free_names, tree_of
from fuselight.worker.repro.inner_frames import inner_frames

pytestmark = pytest.mark.torch

RATE = 0.5
OFFSETS = [1.0, 2.0]


@dataclasses.dataclass
class Options:
    width: int = 4
    name: str = "a"


class Color(enum.Enum):
    RED = 1


Pair = collections.namedtuple("Pair", "one two")  # noqa: PYI024 - programs have it


class Block(nn.Module):
    """A block."""

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.options = options
        self.first = nn.Linear(options.width, options.width)
        self.scale = nn.Buffer(torch.ones(options.width))

    def forward(self, x: torch.Tensor, *, gain: float = 1.0) -> torch.Tensor:
        return F.gelu(self.first(x)) * self.scale * gain * RATE


class Tower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(Options())])
        self.after = nn.Sequential(nn.Dropout(0.5), nn.ReLU())
        self.weights = nn.ParameterList([nn.Parameter(torch.ones(2))])

    def forward(self, x: torch.Tensor) -> Any:
        for block in self.blocks:
            x = block(x, gain=2.0)
        return self.after(x) + self.weights[0].sum()


class Counter:
    __slots__ = ("count",)

    def __init__(self) -> None:
        raise RuntimeError("a constructor never runs")

    def next(self, by: int) -> int:
        return self.count + by  # type: ignore[attr-defined, no-any-return]


def counter() -> Counter:
    number = Counter.__new__(Counter)
    number.count = 3  # type: ignore[attr-defined]
    return number


def scaled(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
    # a comment
    return x * factor * sum(OFFSETS)


def everything(x: Any, items: Any, *rest: Any, **named: Any) -> Any:
    total = scaled(x) + math.sqrt(len(items)) + len(rest)
    return total, {**named, "color": Color.RED}, torch.finfo(x.dtype).max


def kinds(value: Any) -> Any:
    return value


def frame_of(function: Any, *given: Any, **named: Any) -> TracedFrame:
    """The frame of a call, as Dynamo would have it."""
    code = function.__code__
    names = code.co_varnames
    values = dict(zip(names[: code.co_argcount], given, strict=False))
    values |= {name: value for name, value in named.items() if name in names}
    end = code.co_argcount + code.co_kwonlyargcount
    if code.co_flags & 4:
        values[names[end]] = given[code.co_argcount :]
        end += 1
    if code.co_flags & 8:
        values[names[end]] = {name: value for name, value in named.items() if name not in names[:end]}
    free = {
        name: cell.cell_contents
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False)
    }
    return TracedFrame(code, function.__globals__, values, free)


def result_of(frame: TracedFrame) -> Any:
    """What the text gives that stands for a call."""
    recorded = recorded_code(frame, "")
    assert not recorded.unprintable, recorded.unprintable
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(recorded.definitions, names)  # noqa: S102 - our own text
    return eval(f"{recorded.function}({recorded.arguments})", names)  # noqa: S307 - the same


def test_a_module_is_made_without_its_constructor_and_has_its_parts() -> None:
    tower = Tower().eval()
    recorded = recorded_code(frame_of(Tower.forward, tower, torch.ones(2, 4)), "")
    assert "Options.__new__(Options)" in recorded.definitions
    assert recorded.missing == ()
    assert result_of(frame_of(Tower.forward, tower, torch.ones(2, 4))).shape == (2, 4)


def test_a_function_has_all_that_it_uses() -> None:
    total, named, largest = result_of(frame_of(everything, torch.ones(3), [1, 2, 3, 4], 5, 6, key=7))
    assert total.shape == (3,)
    assert named["key"] == 7
    assert named["color"].name == "RED"
    assert largest == torch.finfo(torch.float32).max


def test_a_variable_of_a_function_around_is_one_of_the_module() -> None:
    factor = 3.0

    def inner(x: torch.Tensor) -> torch.Tensor:
        return scaled(x, factor)

    assert result_of(frame_of(inner, torch.ones(2))).shape == (2,)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (float("nan"), 'float("nan")'),
        ((1,), "(1,)"),
        ({"a": [1, {2}]}, "{'a': [1, set((2,))]}"),
        (torch.float16, "torch.float16"),
        (torch.device("cpu"), 'torch.device("cpu")'),
        (torch.Size((1, 2)), "torch.Size((1, 2))"),
        (slice(1, None), "slice(1, None, None)"),
        (collections.deque([1]), "collections.deque((1,))"),
        (torch.relu, "torch.relu"),
        (F.relu, "torch.nn.functional.relu"),
        (math.sqrt, "math.sqrt"),
        (len, "len"),
        (functools.partial(torch.add, alpha=2), "functools.partial(torch.add, alpha=2)"),
        (nn.Linear, "torch.nn.Linear"),
    ],
)
def test_a_value_has_a_text(value: Any, text: str) -> None:
    recorded = recorded_code(frame_of(kinds, value), "")
    assert recorded.arguments == text
    assert recorded.missing == ()


@pytest.mark.parametrize(
    "value",
    [
        torch.ones(2, 3, requires_grad=True),
        torch.arange(4, dtype=torch.int8),
        torch.ones(2, dtype=torch.bool),
        torch.ones(2, dtype=torch.complex64),
        nn.Parameter(torch.ones(2), requires_grad=False),
    ],
    ids=lambda value: str(value.dtype),
)
def test_a_tensor_has_its_kind_and_none_of_its_values(value: torch.Tensor) -> None:
    copied = result_of(frame_of(kinds, value))
    assert (copied.dtype, copied.shape, copied.requires_grad) == (
        value.dtype,
        value.shape,
        value.requires_grad,
    )
    assert type(copied) is type(value)


def test_one_object_stays_one() -> None:
    shared = torch.ones(2)
    copied = result_of(frame_of(kinds, [shared, {"again": shared}]))
    assert copied[0] is copied[1]["again"]


def test_objects_without_a_dictionary_have_their_slots() -> None:
    assert result_of(frame_of(Counter.next, counter(), 4)) == 7


def test_what_cannot_be_written_is_none_and_listed() -> None:
    recorded = recorded_code(frame_of(kinds, [open, iter(())]), "")
    assert recorded.arguments == "[open, None]"
    assert recorded.missing == ("tuple_iterator",)


def test_comments_annotations_and_what_compiles_are_left_out(
    folder_of_source: Callable[[str], types.ModuleType],
) -> None:
    module = folder_of_source(
        "import torch\n@torch.compile(dynamic=True)\n@torch.no_grad()\ndef f(x: int) -> int:\n"
        "    'Says what it does.'\n    y: int = x  # why\n    return y\ng = lambda a: a + 1; h = lambda b: b * 2\n"
    )
    function = module.f._torchdynamo_orig_callable
    text = recorded_code(frame_of(kinds, [function, module.g, module.h]), "").definitions
    for word in ("compile", "Says", "why", "->", "x: "):
        assert word not in text
    assert "@torch.no_grad()" in text
    assert "return a + 1" in text
    assert "return b * 2" in text


@pytest.fixture
def folder_of_source(tmp_path: Any) -> Iterator[Callable[[str], types.ModuleType]]:
    def module_of(source: str) -> types.ModuleType:
        path = tmp_path / "source.py"
        path.write_text(source)
        module = types.ModuleType("source")
        exec(compile(source, str(path), "exec"), vars(module))  # noqa: S102 - our own text
        return module

    yield module_of
    torch.compiler.reset()


def test_names_that_a_definition_binds_are_not_free() -> None:
    names = set(free_names(tree_of(everything)))
    assert {"scaled", "math", "Color", "torch", "len"} <= names
    assert not names & {"x", "items", "rest", "named", "total"}


def test_a_call_inside_has_the_arguments_of_eager_mode() -> None:
    frame = frame_of(Tower.forward, Tower(), torch.ones(2, 4))
    (inner,) = inner_frames(frame, [(__file__, "forward")])
    assert inner.code is Block.forward.__code__
    assert inner.arguments["gain"] == 2.0
    assert result_of(inner).shape == (2, 4)


def test_a_call_that_fails_gives_the_calls_before_it() -> None:
    def outer(x: torch.Tensor) -> None:
        scaled(x)
        raise ValueError

    (inner,) = inner_frames(frame_of(outer, torch.ones(1)), [(__file__, "scaled"), (__file__, "absent")])
    assert inner.code is scaled.__code__
