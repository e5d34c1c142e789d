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

from benchmarks.gpu.own_models import (
    AttentionWays,
    AutocastBlock,
    CellLoop,
    Neighbors,
    Norms,
    Scaled,
    Shuffled,
    Tables,
    UNet,
)

ModelCall = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]
CELL_STEPS = 12
"""Steps of cell_loop, as recorded."""


def _transformers(config: str, model: str, **sizes: Any) -> nn.Module:
    library: Any = importlib.import_module("transformers")
    module: nn.Module = getattr(library, model)(getattr(library, config)(**sizes))
    return module


def _timm(name: str, **sizes: Any) -> nn.Module:
    library: Any = importlib.import_module("timm")
    module: nn.Module = library.create_model(name, pretrained=False, **sizes)
    return module


def _tokens(vocabulary: int, rows: int = 2, length: int = 64) -> torch.Tensor:
    return torch.randint(vocabulary, (rows, length))


def _resnet() -> ModelCall:
    library: Any = importlib.import_module("torchvision.models")
    return library.resnet50(num_classes=100), (torch.randn(4, 3, 64, 64),), {}


def _vit() -> ModelCall:
    return _timm("vit_tiny_patch16_224", img_size=64, depth=3), (torch.randn(4, 3, 64, 64),), {}


def _bert() -> ModelCall:
    model = _transformers(
        "BertConfig", "BertForMaskedLM", hidden_size=256, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=1024, vocab_size=1000,
    )  # fmt: skip
    mask = torch.ones(2, 64, dtype=torch.int64)
    mask[1, 50:] = 0
    return model, (), {"input_ids": _tokens(1000), "attention_mask": mask}


def _gpt2() -> ModelCall:
    model = _transformers(
        "GPT2Config", "GPT2LMHeadModel", n_embd=256, n_layer=2, n_head=4, vocab_size=1000, use_cache=False
    )
    return model, (_tokens(1000),), {}


def _llama() -> ModelCall:
    model = _transformers(
        "LlamaConfig", "LlamaForCausalLM", hidden_size=256, num_hidden_layers=2, num_attention_heads=8,
        num_key_value_heads=2, intermediate_size=512, vocab_size=1000, use_cache=False,
    )  # fmt: skip
    return model, (_tokens(1000),), {}


def _t5() -> ModelCall:
    model = _transformers(
        "T5Config", "T5Model", d_model=128, d_kv=32, d_ff=256, num_layers=2, num_decoder_layers=2, num_heads=4,
        vocab_size=1000, use_cache=False,
    )  # fmt: skip
    return model, (), {"input_ids": _tokens(1000), "decoder_input_ids": _tokens(1000, length=32)}


def _mixtral() -> ModelCall:
    model = _transformers(
        "MixtralConfig", "MixtralForCausalLM", hidden_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=256, num_local_experts=4, vocab_size=1000, use_cache=False,
    )  # fmt: skip
    return model, (_tokens(1000),), {}


def _convnext() -> ModelCall:
    return _timm("convnext_atto", num_classes=100), (torch.randn(4, 3, 64, 64),), {}


def _mixer() -> ModelCall:
    return _timm("mixer_s32_224", img_size=64, num_classes=100), (torch.randn(4, 3, 64, 64),), {}


def _mobilenet() -> ModelCall:
    return _timm("mobilenetv3_small_100", num_classes=100), (torch.randn(4, 3, 64, 64),), {}


def _swin() -> ModelCall:
    model = _timm(
        "swin_tiny_patch4_window7_224",
        img_size=56,
        depths=(2, 2),
        num_heads=(2, 4),
        embed_dim=64,
        num_classes=100,
    )
    return model, (torch.randn(2, 3, 56, 56),), {}


def _unet() -> ModelCall:
    return UNet(32), (torch.randn(2, 3, 32, 32), torch.rand(2)), {}


def cell_loop(steps: int = CELL_STEPS) -> ModelCall:
    """A loop that calls an LSTM and a GRU cell once in each step."""
    return CellLoop(64, 128), (torch.randn(8, steps, 64),), {}


def _user_triton() -> ModelCall:
    return Scaled(256), (torch.randn(64, 256),), {}


def _autocast() -> ModelCall:
    return AutocastBlock(256, 4), (torch.randn(2, 64, 256),), {}


def _attention_ways() -> ModelCall:
    away = torch.zeros(64, 64).masked_fill(torch.ones(64, 64, dtype=torch.bool).triu(1), -1e4)
    return AttentionWays(256, 4), (torch.randn(2, 64, 256), away), {}


def _losses() -> ModelCall:
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


_SMALL = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256}
_WORDS = {"vocab_size": 1000}


def _language(config: str, model: str, **sizes: Any) -> Callable[[], ModelCall]:
    """A language model of transformers, on two rows of tokens."""

    def make() -> ModelCall:
        return _transformers(config, model, **_WORDS, **sizes), (_tokens(1000),), {}

    return make


def _vision(name: str, size: int = 64, **sizes: Any) -> Callable[[], ModelCall]:
    """A model of timm, on four images."""
    return lambda: (_timm(name, num_classes=100, **sizes), (torch.randn(4, 3, size, size),), {})


def _torchvision(name: str, size: int = 64) -> Callable[[], ModelCall]:
    def make() -> ModelCall:
        library: Any = importlib.import_module("torchvision.models")
        return getattr(library, name)(num_classes=100), (torch.randn(4, 3, size, size),), {}

    return make


def _whisper() -> ModelCall:
    model = _transformers(
        "WhisperConfig", "WhisperModel", d_model=128, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=256, decoder_ffn_dim=256, num_mel_bins=40, vocab_size=1000,
        max_source_positions=100, max_target_positions=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=1, use_cache=False,
    )  # fmt: skip
    named = {"input_features": torch.randn(2, 40, 200), "decoder_input_ids": _tokens(1000, length=32)}
    return model, (), named


def _bart() -> ModelCall:
    model = _transformers(
        "BartConfig", "BartModel", d_model=128, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=256, decoder_ffn_dim=256, vocab_size=1000,
        max_position_embeddings=128, use_cache=False,
    )  # fmt: skip
    return model, (), {"input_ids": _tokens(1000), "decoder_input_ids": _tokens(1000, length=32)}


def _clip() -> ModelCall:
    model = _transformers("CLIPVisionConfig", "CLIPVisionModel", **_SMALL, image_size=64, patch_size=16)
    return model, (torch.randn(4, 3, 64, 64),), {}


def _dinov2() -> ModelCall:
    model = _transformers(
        "Dinov2Config", "Dinov2Model", hidden_size=128, num_hidden_layers=2, num_attention_heads=4, image_size=64,
        patch_size=16, mlp_ratio=2,
    )  # fmt: skip
    return model, (torch.randn(4, 3, 64, 64),), {}


def _segformer() -> ModelCall:
    model = _transformers(
        "SegformerConfig", "SegformerModel", depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 64, 128],
        num_attention_heads=[1, 2, 2, 4],
    )  # fmt: skip
    return model, (torch.randn(2, 3, 64, 64),), {}


def _wav2vec2() -> ModelCall:
    model = _transformers(
        "Wav2Vec2Config", "Wav2Vec2Model", **_SMALL, conv_dim=(32, 32, 32), conv_kernel=(10, 3, 2),
        conv_stride=(5, 2, 2), num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, layerdrop=0.0,
        apply_spec_augment=False,
    )  # fmt: skip
    return model, (torch.randn(2, 4000),), {}


def _hifigan() -> ModelCall:
    model = _transformers(
        "SpeechT5HifiGanConfig", "SpeechT5HifiGan", model_in_dim=40, upsample_initial_channel=64,
        upsample_rates=[4, 4], upsample_kernel_sizes=[8, 8], resblock_kernel_sizes=[3, 7],
        resblock_dilation_sizes=[[1, 3], [1, 3]],
    )  # fmt: skip
    return model, (torch.randn(2, 32, 40),), {}


def _neighbors() -> ModelCall:
    return Neighbors(32, 8), (torch.randn(2, 3, 128),), {}


def _norms() -> ModelCall:
    return Norms(128), (torch.randn(4, 32, 128),), {}


def _tables() -> ModelCall:
    return Tables(32, 16), (torch.randn(2, 3, 32, 32),), {}


def _shuffled() -> ModelCall:
    return Shuffled(32), (torch.randn(4, 3, 31, 31),), {}


MODELS: dict[str, Callable[[], ModelCall]] = {
    "resnet50": _resnet,
    "regnet": _vision("regnety_002"),
    "shufflenet": _torchvision("shufflenet_v2_x0_5"),
    "resmlp": _vision("resmlp_12_224", img_size=64),
    "squeezenet": _torchvision("squeezenet1_1"),
    "vit": _vit,
    "bert": _bert,
    "gpt2": _gpt2,
    "llama": _llama,
    "t5": _t5,
    "convnext": _convnext,
    "mixer": _mixer,
    "unet": _unet,
    "mixtral": _mixtral,
    "cell_loop": cell_loop,
    "user_triton": _user_triton,
    "mobilenetv3": _mobilenet,
    "swin": _swin,
    "autocast": _autocast,
    "attention_ways": _attention_ways,
    "losses": _losses,
    "norms": _norms,
    "tables": _tables,
    "shuffled": _shuffled,
    "distilbert": _language(
        "DistilBertConfig", "DistilBertForMaskedLM", dim=128, n_layers=2, n_heads=4, hidden_dim=256
    ),
    "opt": _language(
        "OPTConfig", "OPTForCausalLM", hidden_size=128, num_hidden_layers=2, num_attention_heads=4, ffn_dim=256,
        word_embed_proj_dim=128, use_cache=False,
    ),
    "qwen3": _language(
        "Qwen3Config", "Qwen3ForCausalLM", **_SMALL, num_key_value_heads=2, head_dim=32, use_cache=False
    ),
    "gemma2": _language(
        "Gemma2Config", "Gemma2ForCausalLM", **_SMALL, num_key_value_heads=2, head_dim=32, use_cache=False
    ),
    "gpt_neox": _language("GPTNeoXConfig", "GPTNeoXForCausalLM", **_SMALL, use_cache=False),
    "modernbert": _language("ModernBertConfig", "ModernBertForMaskedLM", **_SMALL, pad_token_id=0),
    "albert": _language("AlbertConfig", "AlbertForMaskedLM", **_SMALL, embedding_size=64),
    "electra": _language("ElectraConfig", "ElectraModel", **_SMALL, embedding_size=64),
    "whisper": _whisper,
    "bart": _bart,
    "clip": _clip,
    "dinov2": _dinov2,
    "segformer": _segformer,
    "wav2vec2": _wav2vec2,
    "hifigan": _hifigan,
    "neighbors": _neighbors,
    "deberta": _language(
        "DebertaV2Config", "DebertaV2ForMaskedLM", **_SMALL, relative_attention=True, position_buckets=16,
        pos_att_type=["p2c", "c2p"], max_relative_positions=64,
    ),
}  # fmt: skip
"""By name: of torchvision, timm and transformers; what none of them has is in own_models."""


def make(name: str, dtype: torch.dtype, device: str, *, train: bool) -> ModelCall:
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
