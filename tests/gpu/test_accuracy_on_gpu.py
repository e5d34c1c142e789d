"""Calls of compiled code are compared with eager mode on a GPU: right models are not accused, a planted fault is."""

from __future__ import annotations

import pytest

from fuselight.shared.protocol import AccuracyRequest
from fuselight.shared.report import ComparedCall
from tests.support.live_worker import LiveWorker

pytestmark = pytest.mark.timeout(600)

HEAD = """\
import torch
from torch import nn
from torch.nn import functional as F
torch.manual_seed(0)
class Attention(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, c))
class Block(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
    def forward(self, x):
        x = x + self.attention(self.one(x))
        return x + self.mlp(self.two(x))
class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.SiLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.GroupNorm(8, 64), nn.Hardswish(), nn.AdaptiveAvgPool2d(4),
        )
        self.head = nn.Linear(64 * 16, 10)
    def forward(self, x):
        return self.head(self.layers(x).flatten(1))
class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(1000, 64)
        self.body = nn.Sequential(Block(64), Block(64))
    def forward(self, ids):
        return self.body(self.embedding(ids)) @ self.embedding.weight.T
"""
MODELS = {
    "block": ("Block()", "torch.randn(4, 64, 128)"),
    "pictures": ("Pictures()", "torch.randn(8, 3, 32, 32)"),
    "words": ("Words()", "torch.randint(0, 1000, (4, 48))"),
}
RUN = """
if __name__ == "__main__":
    dtype = torch.{dtype}
    net = {model}.cuda().to(dtype).{mode}
    x = {given}.cuda()
    x = x.to(dtype) if x.is_floating_point() else x
    model = torch.compile(net{options})
    for _ in range(2):
        y = model(x)
        if {trains}:
            y.float().square().mean().backward()
            torch.optim.SGD(net.parameters(), lr=0.01).step()
"""


def calls_of(live: LiveWorker, source: str) -> tuple[ComparedCall, ...]:
    report = live.report(live.request(source, "", seconds=300.0).of_kind(AccuracyRequest))
    assert report.failures == (), report.failures[0].stack
    assert report.results is not None
    assert report.results.calls
    return report.results.calls


@pytest.mark.parametrize("options", ["", ", mode='reduce-overhead'"])
@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("model", MODELS)
def test_a_right_model_is_not_accused(
    live: LiveWorker, model: str, dtype: str, *, trains: bool, options: str
) -> None:
    built, given = MODELS[model]
    source = HEAD + RUN.format(
        model=built,
        given=given,
        dtype=dtype,
        trains=trains,
        mode="train()" if trains else "eval().requires_grad_(False)",
        options=options,
    )
    for call in calls_of(live, source):
        assert not call.is_wrong, (call.accuracy.why, call.others)
        assert call.accuracy.compared or call.accuracy.why


def test_tf32_is_no_fault(live: LiveWorker) -> None:
    source = "import torch\ntorch.set_float32_matmul_precision('high')\n" + HEAD
    source += RUN.format(
        model="Block()",
        given="torch.randn(4, 64, 128)",
        dtype="float32",
        trains=False,
        mode="eval()",
        options=", mode='max-autotune-no-cudagraphs'",
    )
    assert not any(call.is_wrong for call in calls_of(live, source))


def test_a_planted_fault_is_found(live: LiveWorker) -> None:
    source = """\
import functools
import torch
from torch._inductor.decomposition import decompositions
@functools.wraps(decompositions[torch.ops.aten.silu.default])
def off(x):
    return x * torch.sigmoid(x) * 1.002
decompositions[torch.ops.aten.silu.default] = off
torch._inductor.decomposition.fast_random_decomps.cache_clear()
def f(x):
    y = x.sin()
    return torch.nn.functional.silu(y).cos()
if __name__ == "__main__":
    torch.compile(f)(torch.linspace(-3, 3, 4096, device="cuda"))
"""
    report = live.report(live.request(source, "").of_kind(AccuracyRequest, locate_seconds=60.0))
    assert report.results is not None
    (call,) = report.results.calls
    assert call.accuracy.passed is False
    assert call.accuracy.first[-1].line == 11
