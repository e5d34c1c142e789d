"""The key of a captured graph: equal in every process, different for each change that Inductor sees."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from fuselight.replay.graph_key import tuned_graph

pytestmark = pytest.mark.torch

Call = Callable[[], object]


def key(function: Callable[..., Any], *args: Any, dynamic: bool | None = None) -> str:
    texts: list[str] = []

    def read(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        texts.append(tuned_graph(gm, inputs).key)
        return gm.forward

    torch._dynamo.reset()
    torch.compile(function, backend=read, dynamic=dynamic)(*args)
    torch._dynamo.reset()
    return "+".join(texts)


class Block(torch.nn.Module):
    """A layer of a transformer, with a dropout and a constant."""

    def __init__(self, width: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.norm = torch.nn.LayerNorm(width)
        self.project = torch.nn.Linear(width, 3 * width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.project(self.norm(x)).chunk(3, dim=-1)
        q, k, v = (value.unflatten(-1, (self.heads, -1)).transpose(1, 2) for value in (q, k, v))
        tensor = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + tensor.transpose(1, 2).flatten(2)


def broken(x: torch.Tensor) -> torch.Tensor:
    x = x.sin()
    torch._dynamo.graph_break()
    return x[..., 1:3].cos()


def noisy(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.dropout(x, 0.1, training=True) * torch.tensor([1.0, 2.0])


def sized(x: torch.Tensor) -> torch.Tensor:
    return x.view(x.shape[0] * 2, -1).sum(0)


def keys() -> dict[str, str]:
    x = torch.zeros(2, 4, 8)
    return {
        "block": key(Block(), x),
        "broken": key(broken, x),
        "noisy": key(noisy, torch.zeros(3, 2)),
        "dynamic": key(sized, torch.zeros(6, 4), dynamic=True),
        "convolution": key(torch.nn.Conv2d(3, 4, 3), torch.zeros(1, 3, 8, 8)),
        "lstm": key(torch.nn.LSTMCell(4, 4), torch.zeros(2, 4)),
    }


def test_a_key_is_the_same_in_every_process() -> None:
    """A process that has captured other graphs, in another order, with another hash seed."""
    here = keys()
    assert len(set(here.values())) == len(here)
    text = f"import sys; sys.path[:0] = {[str(Path(__file__).parent), *sys.path]!r}\n"
    text += (
        "import json, test_graph_key as t\nt.key(t.sized, t.torch.zeros(8, 8))\nprint(json.dumps(t.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text], check=True, capture_output=True, text=True,
        env={"PYTHONHASHSEED": "7"},
    )  # fmt: skip
    assert json.loads(done.stdout) == here


@pytest.mark.parametrize(
    ("function", "other"),
    [
        (lambda: key(Block(), torch.zeros(2, 4, 8)), lambda: key(Block(), torch.zeros(2, 5, 8))),
        (lambda: key(Block(), torch.zeros(2, 4, 8)), lambda: key(Block(8, 4), torch.zeros(2, 4, 8))),
        (lambda: key(torch.sin, torch.zeros(4)), lambda: key(torch.cos, torch.zeros(4))),
        (lambda: key(torch.sin, torch.zeros(4)), lambda: key(torch.sin, torch.zeros(4).double())),
        (lambda: key(torch.sin, torch.zeros(4, 4)), lambda: key(torch.sin, torch.zeros(4, 4).t()[:, :])),
        (lambda: key(torch.sin, torch.zeros(4)), lambda: key(torch.sin, torch.zeros(4, requires_grad=True))),
        (lambda: key(lambda x: x + 1, torch.zeros(4)), lambda: key(lambda x: x + 2, torch.zeros(4))),
        (lambda: key(lambda x: x[1:], torch.zeros(4)), lambda: key(lambda x: x[2:], torch.zeros(4))),
        (lambda: key(lambda x: x.sum(0), torch.zeros(4)), lambda: key(lambda x: x.sum(-1), torch.zeros(4))),
    ],
)
def test_a_change_that_inductor_sees_changes_the_key(
    function: Callable[[], str], other: Callable[[], str]
) -> None:
    assert function() == function()
    if function() == other():
        pytest.fail("two different graphs have one key")


def test_names_do_not_count() -> None:
    def first(x: torch.Tensor) -> torch.Tensor:
        result = x.sin()
        return result + 1

    def second(other: torch.Tensor) -> torch.Tensor:
        return other.sin() + 1

    assert key(first, torch.zeros(4)) == key(second, torch.zeros(4))


def test_a_dynamic_graph_holds_for_all_of_its_sizes() -> None:
    text = key(sized, torch.zeros(6, 4), dynamic=True)
    assert text == key(sized, torch.zeros(10, 6), dynamic=True)
    assert text != key(sized, torch.zeros(6, 4))


def test_what_a_reader_sees_of_a_graph() -> None:
    results: list[Any] = []

    def read(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        results.append(tuned_graph(gm, inputs))
        return gm.forward

    torch._dynamo.reset()
    torch.compile(torch.nn.Linear(4, 2), backend=read)(torch.zeros(3, 4))
    assert results[0].inputs == ("f32[3, 4]",)
    assert results[0].operators == 1
