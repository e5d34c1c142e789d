"""The models on which kernels are compared: small configurations, random weights, what each architecture does.

Invariant: a model is a module and the arguments of one call, made on the CPU in float32 from one seed; nothing is
fetched. A model whose library is not installed raises ImportError.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - torch's own custom

from benchmarks.gpu.own_models import AttentionWays, AutocastBlock, CellLoop, Scaled, UNet

Made = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]


def _transformers(config: str, model: str, **sizes: Any) -> nn.Module:
    library: Any = importlib.import_module("transformers")
    made: nn.Module = getattr(library, model)(getattr(library, config)(**sizes))
    return made


def _timm(name: str, **sizes: Any) -> nn.Module:
    library: Any = importlib.import_module("timm")
    made: nn.Module = library.create_model(name, pretrained=False, **sizes)
    return made


def _tokens(vocabulary: int, rows: int = 2, length: int = 64) -> torch.Tensor:
    return torch.randint(vocabulary, (rows, length))


def _resnet() -> Made:
    library: Any = importlib.import_module("torchvision.models")
    return library.resnet50(num_classes=100), (torch.randn(4, 3, 64, 64),), {}


def _vit() -> Made:
    return _timm("vit_tiny_patch16_224", img_size=64, depth=3), (torch.randn(4, 3, 64, 64),), {}


def _bert() -> Made:
    model = _transformers(
        "BertConfig", "BertForMaskedLM", hidden_size=256, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=1024, vocab_size=1000,
    )  # fmt: skip
    mask = torch.ones(2, 64, dtype=torch.int64)
    mask[1, 50:] = 0
    return model, (), {"input_ids": _tokens(1000), "attention_mask": mask}


def _gpt2() -> Made:
    model = _transformers(
        "GPT2Config", "GPT2LMHeadModel", n_embd=256, n_layer=2, n_head=4, vocab_size=1000, use_cache=False
    )
    return model, (_tokens(1000),), {}


def _llama() -> Made:
    model = _transformers(
        "LlamaConfig", "LlamaForCausalLM", hidden_size=256, num_hidden_layers=2, num_attention_heads=8,
        num_key_value_heads=2, intermediate_size=512, vocab_size=1000, use_cache=False,
    )  # fmt: skip
    return model, (_tokens(1000),), {}


def _t5() -> Made:
    model = _transformers(
        "T5Config", "T5Model", d_model=128, d_kv=32, d_ff=256, num_layers=2, num_decoder_layers=2, num_heads=4,
        vocab_size=1000, use_cache=False,
    )  # fmt: skip
    return model, (), {"input_ids": _tokens(1000), "decoder_input_ids": _tokens(1000, length=32)}


def _mixtral() -> Made:
    model = _transformers(
        "MixtralConfig", "MixtralForCausalLM", hidden_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=256, num_local_experts=4, vocab_size=1000, use_cache=False,
    )  # fmt: skip
    return model, (_tokens(1000),), {}


def _convnext() -> Made:
    return _timm("convnext_atto", num_classes=100), (torch.randn(4, 3, 64, 64),), {}


def _mixer() -> Made:
    return _timm("mixer_s32_224", img_size=64, num_classes=100), (torch.randn(4, 3, 64, 64),), {}


def _mobilenet() -> Made:
    return _timm("mobilenetv3_small_100", num_classes=100), (torch.randn(4, 3, 64, 64),), {}


def _swin() -> Made:
    model = _timm(
        "swin_tiny_patch4_window7_224",
        img_size=56,
        depths=(2, 2),
        num_heads=(2, 4),
        embed_dim=64,
        num_classes=100,
    )
    return model, (torch.randn(2, 3, 56, 56),), {}


def _unet() -> Made:
    return UNet(32), (torch.randn(2, 3, 32, 32), torch.rand(2)), {}


def _cell_loop() -> Made:
    return CellLoop(64, 128), (torch.randn(8, 12, 64),), {}


def _user_triton() -> Made:
    return Scaled(256), (torch.randn(64, 256),), {}


def _autocast() -> Made:
    return AutocastBlock(256, 4), (torch.randn(2, 64, 256),), {}


def _attention_ways() -> Made:
    away = torch.zeros(64, 64).masked_fill(torch.ones(64, 64, dtype=torch.bool).triu(1), -1e4)
    return AttentionWays(256, 4), (torch.randn(2, 64, 256), away), {}


def _losses() -> Made:
    class Losses(nn.Module):
        """What training scripts write around a model: gather, scatter, softmax, sort, a loss."""

        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.EmbeddingBag(500, 64, mode="sum")
            self.out = nn.Linear(64, 500)

        def forward(self, tokens: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
            hidden = F.silu(self.embed(tokens, offsets))
            logits = self.out(F.normalize(hidden, dim=-1))
            kept = logits.topk(50, dim=-1).values.cumsum(-1)
            loss = F.cross_entropy(logits, tokens[: logits.size(0)], label_smoothing=0.1)
            whole: torch.Tensor = (
                loss + F.smooth_l1_loss(kept, torch.zeros_like(kept)) + logits.std(0, unbiased=True).mean()
            )
            return whole

    return Losses(), (torch.randint(500, (256,)), torch.arange(0, 256, 16)), {}


MODELS: dict[str, Callable[[], Made]] = {
    "resnet50": _resnet,
    "vit": _vit,
    "bert": _bert,
    "gpt2": _gpt2,
    "llama": _llama,
    "t5": _t5,
    "convnext": _convnext,
    "mixer": _mixer,
    "unet": _unet,
    "mixtral": _mixtral,
    "cell_loop": _cell_loop,
    "user_triton": _user_triton,
    "mobilenetv3": _mobilenet,
    "swin": _swin,
    "autocast": _autocast,
    "attention_ways": _attention_ways,
    "losses": _losses,
}
"""By name; torchvision, timm and transformers, and what they have not is in own_models."""


def make(name: str, dtype: torch.dtype, device: str, *, train: bool) -> Made:
    """The model of that name, in `dtype` on `device`, and the arguments of a call."""
    torch.manual_seed(0)
    model, args, named = MODELS[name]()
    if name == "autocast":  # the region inside chooses the dtype
        dtype = torch.float32

    def move(value: Any) -> Any:
        value = value.to(device)
        return value.to(dtype) if value.is_floating_point() else value

    model = model.to(device=device, dtype=dtype).train(train)
    return model, tuple(map(move, args)), {key: move(value) for key, value in named.items()}
