"""Which functions get lenses although nothing compiles them: those that compute with tensors that they are given."""

from __future__ import annotations

import pytest

from fuselight_server.source.document import read_source

COMPUTE = (
    "def f(x: torch.Tensor): return x * 2",
    'def f(x: "Tensor", n=3): return x * n',
    "def f(x: Float[Tensor, 'batch width']): return x + 1",
    "def f(x: list[torch.Tensor]): return x[0]",
    "def f(pred, wanted): return F.mse_loss(pred, wanted)",
    "def f(x): return torch.relu(x)",
    "def f(a, b): return torch.linalg.solve(a, b)",
    "def f(a, b): return torch.nn.functional.cosine_similarity(a, b)",
    "def f(x):\n    n = x.shape[0]\n    return n",
    "def f(x): return x.view(-1)",
    "def f(a, b): return a @ b",
    "def f(model, x, y):\n    loss = F.cross_entropy(model(x), y)\n    loss.backward()",
)
MAKE = (
    "def make_loader(path, batch): return DataLoader(Images(path), batch_size=batch)",
    "def make_loader(n, batch):\n    return torch.utils.data.DataLoader(TensorDataset(torch.randn(n * 4, 8)), batch)",
    "def make_optimizer(model, lr): return torch.optim.AdamW(model.parameters(), lr=lr)",
    "def build(width): return torch.nn.Linear(width, width)",
    "def compiled(model): return torch.compile(model)",
    "def load(path): return torch.load(path)",
    "def save(model, path): torch.save(model.state_dict(), path)",
    "def device(name): return torch.device(name)",
    "def seed(n): torch.manual_seed(n)",
    "def setup(rank, size): torch.distributed.init_process_group('gloo', rank=rank, world_size=size)",
    "def lr_at(step, warm): return min(1.0, step / warm)",
    "def parse(argv): return argparse.ArgumentParser().parse_args(argv)",
    "def clip(model): torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
    "def sample(n): return torch.randn(n, 4)",
    "def main(): torch.relu(torch.ones(4))",
)


@pytest.mark.parametrize("code", COMPUTE)
def test_a_function_that_computes_with_tensors_can_be_compiled(code: str) -> None:
    (target,) = read_source("m.py", f"{code}\n").targets
    assert target.computes


@pytest.mark.parametrize("code", MAKE)
def test_a_function_that_only_makes_or_sets_something_does_not_count(code: str) -> None:
    (target,) = read_source("m.py", f"{code}\n").targets
    assert not target.computes


def test_every_module_can_be_compiled() -> None:
    (target,) = read_source("m.py", "import torch\n\n\nclass Net(torch.nn.Module):\n    pass\n").targets
    assert target.computes
