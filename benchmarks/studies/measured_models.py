"""The calls that are measured: the models on which kernels are compared, with more rows, and one large ResNet-50.

Invariant: made on the CPU from one seed, so that the process of the benchmark and the independent one make the same
call. A model whose library is not installed raises ImportError.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import nn

from benchmarks.gpu.models import MODELS, ModelCall, make

TWELVE = tuple(MODELS)[:12]
"""A CNN, ViT, BERT, GPT, Llama, T5, ConvNeXt, Mixer, U-Net, experts, recurrent cells, a custom Triton kernel."""
ROWS = {
    "resnet50": 1024,
    "bert": 2048,
    "convnext": 1024,
    "t5": 2048,
    "mixer": 2048,
    "mixtral": 1536,
    "unet": 1024,
    "cell_loop": 16384,
    "user_triton": 4096,
}
"""How often the rows of `benchmarks.gpu.models` are repeated, else MAX_ROWS: so that the device is what takes the time
of a call, and not the host, whose time no two processes share to within some percent.
"""
MAX_ROWS = 512
TINY = "tiny"
LARGE = "resnet50_large"


def rows_of(name: str, rows: int) -> int:
    """How often the rows of a model are repeated, where `rows` is 0; else `rows`."""
    return rows or ROWS.get(name, MAX_ROWS)


def build_model(name: str, dtype: str, rows: int) -> ModelCall:
    """The model of that name in `dtype`, and the arguments of one call with `rows` times the rows that it has there.

    0 rows: as many as keep a large GPU busy.
    """
    rows = rows_of(name, rows)
    torch.set_float32_matmul_precision("high")
    if name == TINY:
        torch.manual_seed(0)
        tiny = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64), nn.LayerNorm(64)).eval()
        return tiny, (torch.randn(32 * rows, 64),), {}
    if name == LARGE:
        return _large()
    model, args, named = make(name, getattr(torch, dtype), "cpu", train=False)
    return (
        model,
        tuple(_more(value, rows) for value in args),
        {key: _more(value, rows) for key, value in named.items()},
    )


def _more(value: torch.Tensor, rows: int) -> torch.Tensor:
    return value.repeat(rows, *[1] * (value.dim() - 1)) if value.dim() else value


def _large() -> ModelCall:
    """ResNet-50 on one image of 1024 by 1024, in float32 with TF32 allowed."""
    library: Any = importlib.import_module("torchvision.models")
    torch.manual_seed(0)
    model: nn.Module = library.resnet50().eval()
    return model, (torch.randn(1, 3, 1024, 1024),), {}


def source(name: str, dtype: str, rows: int) -> str:
    """A file of a user's that makes this call: the function `call`, and its inputs."""
    return (
        "from benchmarks.studies.measured_models import made\n\n"
        f"model, args, named = made({name!r}, {dtype!r}, {rows})\n\n\n"
        "def call(*args, **named):\n"
        "    return model(*args, **named)\n\n\n"
        "def example_inputs():\n"
        "    return args, named\n"
    )


def on(device: torch.device, model: nn.Module, args: Any, named: Any) -> ModelCall:
    """The same on a device."""
    moved = tuple(value.to(device) for value in args)
    return model.to(device), moved, {key: value.to(device) for key, value in named.items()}
