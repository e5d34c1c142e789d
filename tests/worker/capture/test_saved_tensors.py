"""Tensors reported as saved for backward equal those that autograd saves, by storage, and recomputation.

The same partition is run for real: Inductor's graphs, executed by ATen, under `saved_tensors_hooks`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everybody names it
from torch.utils.checkpoint import checkpoint

from fuselight.shared.report import Device, GeneratedGraph, Phase, SavedTensor
from tests.support.case_files import marked

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]
CPU = Device("cpu", "CPU", "cpu", "", 2)


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(16, 64), nn.Linear(64, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h: torch.Tensor = self.down(F.gelu(self.up(x)))
        return h


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h: torch.Tensor = (x + self.norm(x)).softmax(-1)
        return h


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (value.unflatten(-1, (4, 8)).transpose(1, 2) for value in self.qkv(x).chunk(3, -1))
        h: torch.Tensor = self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return h


class Dropped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.drop = nn.Linear(16, 16), nn.Dropout(0.25)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h: torch.Tensor = self.linear(self.drop(x)).relu()
        return h


class Views(nn.Module):
    """Several overlapping views of one tensor are saved."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.linear(x)
        left, right = h[:, :12], h[:, 8:24]
        out: torch.Tensor = (left.t() @ right).exp() * h.view(4, -1).sum()
        return out


class InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.seen: torch.Tensor
        self.register_buffer("seen", torch.zeros(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.linear(x)
        h.mul_(h.detach().amax()).sigmoid_()
        self.seen.add_(h.detach().sum(0))
        out: torch.Tensor = h * self.seen
        return out


class Convolved(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.max_pool2d(self.norm(self.conv(x)).relu(), 2)


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 64), nn.Linear(64, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def inner(x: torch.Tensor) -> torch.Tensor:
            h: torch.Tensor = self.second(torch.tanh(self.first(x)))
            return h

        h: torch.Tensor = checkpoint(inner, x, use_reentrant=False)
        return h.exp()


class TwoOutputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = self.linear(x).exp()
        return h, (h * h).cos()


class Broken(nn.Module):
    """Three graphs: the tensors between them are saved by either, by both, or created in between."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(16, 64), nn.Linear(64, 32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x).exp()
        torch._dynamo.graph_break()
        h = self.second(h)
        torch._dynamo.graph_break()
        out: torch.Tensor = self.third(h).exp() + h.sum()
        return out


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (Mlp, (8, 16)),
    "norm": (Normed, (8, 16)),
    "attention": (Attention, (2, 8, 32)),
    "dropout": (Dropped, (8, 16)),
    "views": (Views, (8, 16)),
    "in-place": (InPlace, (8, 16)),
    "convolution": (Convolved, (2, 3, 10, 10)),
    "checkpoint": (Checkpointed, (8, 16)),
    "two outputs": (TwoOutputs, (8, 16)),
}
FURTHER = {"norm", "dropout", "convolution", "two outputs"}
"""Models that save tensors as others do."""


@pytest.fixture(autouse=True)
def _forgetting() -> Iterator[None]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def generated(model: nn.Module, *calls: tuple[torch.Tensor, ...]) -> list[GeneratedGraph]:
    from fuselight.capture.inductor import Generation  # noqa: PLC0415 - Inductor is not for the collection of tests

    generation = Generation(CPU)
    compiled = torch.compile(model, backend=generation)
    for call in calls:
        compiled(*call)
    assert [graph.failure for graph in generation.graphs] == [None] * len(generation.graphs)
    assert generation.problems == {}
    assert all(graph.joint_key in generation.texts for graph in generation.graphs if graph.saved)
    return generation.graphs


def kept_by_autograd(model: nn.Module, call: tuple[torch.Tensor, ...]) -> int:
    """Bytes of the storages that autograd holds after a call of the same graphs, parameters and inputs aside."""
    from torch._functorch._aot_autograd.utils import make_boxed_func  # noqa: PLC0415 - as above
    from torch._inductor.compile_fx import compile_fx  # noqa: PLC0415

    def run_by_aten(gm: torch.fx.GraphModule, _inputs: Any, **_options: Any) -> Any:
        return make_boxed_func(gm.forward)

    def backend(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        return compile_fx(gm, inputs, inner_compile=run_by_aten)

    held: list[torch.Tensor] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        held.append(tensor)
        return tensor

    torch._dynamo.reset()
    with (
        torch._functorch.config.patch(enable_autograd_cache=False),
        torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
    ):
        outputs = torch.compile(model, backend=backend)(*call)
    given = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers(), *call)}
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in held}
    assert outputs is not None  # until here, or a storage might be freed and its address used again
    return sum(size for pointer, size in storages.items() if pointer not in given)


def total(tensors: tuple[SavedTensor, ...]) -> int:
    return sum(tensor.bytes for tensor in tensors)


@pytest.mark.parametrize("name", marked(MODELS, FURTHER))
def test_the_total_is_what_autograd_keeps(name: str) -> None:
    make, shape = MODELS[name]
    model, x = make(), torch.rand(shape)
    graphs = generated(model, (x,))
    assert [graph.phase for graph in graphs] == [Phase.FORWARD, Phase.BACKWARD]
    kept = kept_by_autograd(model, (x,))
    assert kept > 0
    assert total(graphs[0].saved) == kept, graphs[0].saved


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # which Dynamo asks tensors between graphs for
def test_tensors_between_graphs_are_counted_once() -> None:
    model, x = Broken(), torch.rand(8, 16)
    graphs = generated(model, (x,))
    forwards = [graph for graph in graphs if graph.phase is Phase.FORWARD]
    assert len(forwards) == 3
    kept = kept_by_autograd(model, (x,))
    assert sum(total(graph.saved) for graph in forwards) == kept > 0
    exp, second, third = (
        [tensor.bytes for tensor in graph.saved if tensor.kind == "carried"] for graph in forwards
    )
    assert exp == []
    assert second == [0]  # the first graph has counted it: its result is what it keeps
    assert third == [4 * 8 * 32]
    (carried,) = (tensor for tensor in forwards[2].saved if tensor.kind == "carried")
    source = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert "self.third(h)" in source[carried.stack[-1].line - 1]


def test_a_view_of_an_input_is_an_input() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx  # noqa: PLC0415 - as above

    from fuselight.capture.inductor import shared_tensors  # noqa: PLC0415

    def forward(weight: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        transposed = weight.t()
        tensor = x @ transposed
        return tensor, transposed, x, tensor, tensor[2:]

    given = torch.rand(16, 8), torch.rand(4, 8)
    graph = make_fx(forward, tracing_mode="fake")(*given)
    saved_tensors = shared_tensors.read_saved(graph, 1, {})
    assert [(tensor.kind, tensor.bytes) for tensor in saved_tensors.tensors] == [
        ("input", 0), ("input", 0), ("activation", 4 * 4 * 16), ("activation", 0)
    ]  # fmt: skip
    assert (saved_tensors.unknown, saved_tensors.carried, saved_tensors.outputs) == ((), (), frozenset({0}))
    made_before = shared_tensors.read_saved(graph, 1, {0: 512})
    assert [(tensor.kind, tensor.bytes) for tensor in made_before.tensors[:2]] == [
        ("carried", 512),
        ("input", 0),
    ]
    assert made_before.carried == (0,)


def test_views_of_one_tensor_are_counted_once() -> None:
    forward, _ = generated(Views(), (torch.rand(8, 16),))
    activations = [tensor for tensor in forward.saved if tensor.kind == "activation"]
    whole = 4 * 8 * 32
    assert [activation.bytes for activation in activations].count(whole) == 1
    assert len([activation for activation in activations if activation.bytes == 0]) >= 1


def test_a_symbolic_size_is_that_of_the_call_and_stays_symbolic() -> None:
    model = Mlp()
    graphs = generated(model, (torch.rand(8, 16),), (torch.rand(12, 16),))
    forwards = [graph for graph in graphs if graph.phase is Phase.FORWARD]
    assert len(forwards) == 2
    torch._dynamo.reset()
    assert total(forwards[1].saved) == kept_by_autograd(model, (torch.rand(12, 16),))
    assert any("s" in size for tensor in forwards[1].saved for size in tensor.shape)
    again = generated(model, *[(torch.rand(size, 16),) for size in (20, 30, 40)])
    # torch remembers that this size varies; had a size been fixed, each would have a graph of its own.
    assert len([graph for graph in again if graph.phase is Phase.FORWARD]) == 1


def test_recomputation_of_a_checkpoint_is_reported_on_its_lines() -> None:
    _, backward = generated(Checkpointed(), (torch.rand(8, 16),))
    entries = {
        recomputed_operator.operator: recomputed_operator.stack[-1].line
        for recomputed_operator in backward.recomputed
    }
    lines = {
        number
        for number, text in enumerate(Path(__file__).read_text(encoding="utf-8").splitlines(), 1)
        if "self.second(torch.tanh(self.first(x)))" in text
    }
    assert entries["aten.tanh.default"] in lines
    assert "aten.addmm.default" in entries
    assert not {entry for entry in entries if "permute" in entry or "view" in entry}


def test_nothing_is_recomputed_if_everything_is_saved() -> None:
    class Product(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(16, 16, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.mm(x, self.linear.weight)

    forward, backward = generated(Product(), (torch.rand(8, 16),))
    assert (total(forward.saved), backward.recomputed) == (0, ())
