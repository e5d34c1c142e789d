"""The models of `benchmarks.studies.tune_models`: one call each, of libraries' architectures with random weights.

Invariant: a model is made on the CPU from one seed, and nothing is fetched. A model whose library is not installed
raises ImportError. `HELD_OUT` was chosen before the first search and not looked at while the search was built.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from benchmarks.gpu.models import ModelCall
from benchmarks.gpu.own_models import UNet
from fuselight.shared.report import Work

_WORK = {"inference": Work.INFERENCE, "training": Work.FORWARD_BACKWARD, "step": Work.TRAINING_STEP}
_VOCABULARY = 8192


@dataclass(frozen=True)
class Sizes:
    """How large a model and its inputs are."""

    rows: int
    layers: int
    width: int
    length: int
    """Tokens of a row."""
    image: int
    """Pixels of a side."""


TINY = Sizes(rows=2, layers=3, width=32, length=16, image=64)


@dataclass(frozen=True)
class TunedModel:
    """One model and its work."""

    make: Callable[[Sizes], ModelCall]
    work: Work
    rows: int
    length: int = 128
    layers: int = 4
    width: int = 768
    image: int = 224
    dtype: str = "bfloat16"

    def sizes(self, *, tiny: bool) -> Sizes:
        """The sizes of a call; tiny ones are for machines without a GPU."""
        return TINY if tiny else Sizes(self.rows, self.layers, self.width, self.length, self.image)


def _transformers(config: str, model: str, **sizes: Any) -> nn.Module:
    library: Any = importlib.import_module("transformers")
    module: nn.Module = getattr(library, model)(getattr(library, config)(**sizes))
    return module


def _tokens(sizes: Sizes, length: int = 0) -> torch.Tensor:
    return torch.randint(_VOCABULARY, (sizes.rows, length or sizes.length))


def _images(sizes: Sizes) -> torch.Tensor:
    return torch.randn(sizes.rows, 3, sizes.image, sizes.image)


def _torchvision(name: str) -> Callable[[Sizes], ModelCall]:
    def make(sizes: Sizes) -> ModelCall:
        library: Any = importlib.import_module("torchvision.models")
        return getattr(library, name)(), (_images(sizes),), {}

    return make


def _timm(name: str, **options: Any) -> Callable[[Sizes], ModelCall]:
    def make(sizes: Sizes) -> ModelCall:
        library: Any = importlib.import_module("timm")
        module: nn.Module = library.create_model(name, pretrained=False, **options)
        return module, (_images(sizes),), {}

    return make


def _encoder(config: str, model: str, **options: Any) -> Callable[[Sizes], ModelCall]:
    """An encoder of transformers with the usual names of sizes."""

    def make(sizes: Sizes) -> ModelCall:
        module = _transformers(
            config, model, hidden_size=sizes.width, num_hidden_layers=sizes.layers,
            num_attention_heads=max(2, sizes.width // 64), intermediate_size=4 * sizes.width,
            vocab_size=_VOCABULARY, **options,
        )  # fmt: skip
        return module, (_tokens(sizes),), {}

    return make


def _decoder(config: str, model: str, **options: Any) -> Callable[[Sizes], ModelCall]:
    """A decoder of today's kind: grouped heads, gated multiplications."""

    def make(sizes: Sizes) -> ModelCall:
        heads = max(2, sizes.width // 64)
        module = _transformers(
            config, model, hidden_size=sizes.width, num_hidden_layers=sizes.layers, num_attention_heads=heads,
            num_key_value_heads=max(1, heads // 4), head_dim=sizes.width // heads,
            intermediate_size=3 * sizes.width, vocab_size=_VOCABULARY, use_cache=False, **options,
        )  # fmt: skip
        return module, (_tokens(sizes),), {}

    return make


def _gpt2(sizes: Sizes) -> ModelCall:
    model = _transformers(
        "GPT2Config", "GPT2LMHeadModel", n_embd=sizes.width, n_layer=sizes.layers,
        n_head=max(2, sizes.width // 64), vocab_size=_VOCABULARY, use_cache=False,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    return model, (_tokens(sizes),), {}


def _distilbert(sizes: Sizes) -> ModelCall:
    model = _transformers(
        "DistilBertConfig", "DistilBertForMaskedLM", dim=sizes.width, n_layers=sizes.layers,
        n_heads=max(2, sizes.width // 64), hidden_dim=4 * sizes.width, vocab_size=_VOCABULARY,
    )  # fmt: skip
    return model, (_tokens(sizes),), {}


def _t5(sizes: Sizes) -> ModelCall:
    model = _transformers(
        "T5Config", "T5Model", d_model=sizes.width, d_kv=64, d_ff=4 * sizes.width, num_layers=sizes.layers,
        num_decoder_layers=sizes.layers, num_heads=max(2, sizes.width // 64), vocab_size=_VOCABULARY,
        use_cache=False, dropout_rate=0.0,
    )  # fmt: skip
    named = {"input_ids": _tokens(sizes), "decoder_input_ids": _tokens(sizes, max(4, sizes.length // 4))}
    return model, (), named


def _whisper(sizes: Sizes) -> ModelCall:
    heads = max(2, sizes.width // 64)
    model = _transformers(
        "WhisperConfig", "WhisperModel", d_model=sizes.width, encoder_layers=sizes.layers,
        decoder_layers=sizes.layers, encoder_attention_heads=heads, decoder_attention_heads=heads,
        encoder_ffn_dim=4 * sizes.width, decoder_ffn_dim=4 * sizes.width, num_mel_bins=80, vocab_size=_VOCABULARY,
        max_source_positions=sizes.length, max_target_positions=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=1, use_cache=False,
    )  # fmt: skip
    named = {
        "input_features": torch.randn(sizes.rows, 80, 2 * sizes.length),
        "decoder_input_ids": _tokens(sizes, 8),
    }
    return model, (), named


def _vit(sizes: Sizes) -> ModelCall:
    library: Any = importlib.import_module("timm.models.vision_transformer")
    model: nn.Module = library.VisionTransformer(
        img_size=sizes.image, patch_size=16, embed_dim=sizes.width, depth=sizes.layers,
        num_heads=max(2, sizes.width // 64), num_classes=1000,
    )  # fmt: skip
    return model, (_images(sizes),), {}


def _mixer(sizes: Sizes) -> ModelCall:
    library: Any = importlib.import_module("timm.models.mlp_mixer")
    model: nn.Module = library.MlpMixer(
        img_size=sizes.image, patch_size=16, embed_dim=sizes.width, num_blocks=sizes.layers, num_classes=1000
    )
    return model, (_images(sizes),), {}


def _swin(sizes: Sizes) -> ModelCall:
    library: Any = importlib.import_module("timm.models.swin_transformer")
    model: nn.Module = library.SwinTransformer(
        img_size=sizes.image, depths=(2, 2), num_heads=(3, 6), embed_dim=96, num_classes=1000,
        window_size=7 if sizes.image % 56 == 0 else 4,
    )  # fmt: skip
    return model, (_images(sizes),), {}


def _unet(sizes: Sizes) -> ModelCall:
    return UNet(64), (_images(sizes), torch.rand(sizes.rows)), {}


_BERT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
_INFERENCE, _TRAINING, _STEP = _WORK["inference"], _WORK["training"], _WORK["step"]
BUILDING: dict[str, TunedModel] = {
    "bert_b1": TunedModel(_encoder("BertConfig", "BertForMaskedLM", **_BERT), _INFERENCE, 1),
    "bert_b16_step": TunedModel(_encoder("BertConfig", "BertForMaskedLM", **_BERT), _STEP, 16),
    "gpt2_b1": TunedModel(_gpt2, _INFERENCE, 1, length=64),
    "gpt2_b8_training": TunedModel(_gpt2, _TRAINING, 8, length=512),
    "resnet18_b1": TunedModel(_torchvision("resnet18"), _INFERENCE, 1),
    "resnet18_b64_step": TunedModel(_torchvision("resnet18"), _STEP, 64),
    "vit_b64": TunedModel(_vit, _INFERENCE, 64),
    "mobilenetv3_b1": TunedModel(_torchvision("mobilenet_v3_small"), _INFERENCE, 1, dtype="float32"),
    "convnext_b32": TunedModel(_timm("convnext_atto"), _INFERENCE, 32),
    "unet_b8_training": TunedModel(_unet, _TRAINING, 8, image=64, dtype="float32"),
}
HELD_OUT: dict[str, TunedModel] = {
    "llama_b1": TunedModel(_decoder("LlamaConfig", "LlamaForCausalLM"), _INFERENCE, 1, length=64, width=1024),
    "llama_b4_training": TunedModel(
        _decoder("LlamaConfig", "LlamaForCausalLM"), _TRAINING, 4, length=512, width=1024
    ),
    "distilbert_b1": TunedModel(_distilbert, _INFERENCE, 1),
    "electra_b32": TunedModel(_encoder("ElectraConfig", "ElectraModel", embedding_size=128), _INFERENCE, 32),
    "t5_b8": TunedModel(_t5, _INFERENCE, 8, layers=3, width=512),
    "whisper_b1": TunedModel(_whisper, _INFERENCE, 1, length=500, layers=3, width=512),
    "squeezenet_b64_step": TunedModel(_torchvision("squeezenet1_1"), _STEP, 64),
    "regnet_b1": TunedModel(_torchvision("regnet_y_400mf"), _INFERENCE, 1),
    "swin_b16": TunedModel(_swin, _INFERENCE, 16),
    "mixer_b64_training": TunedModel(_mixer, _TRAINING, 64, width=384),
}
MODELS = {**BUILDING, **HELD_OUT}


MAIN = (
    "llama_b1", "bert_b16_step", "regnet_b1", "gpt2_b1", "swin_b16", "resnet18_b1", "llama_b4_training", "vit_b64",
    "electra_b32", "convnext_b32", "t5_b8", "unet_b8_training", "squeezenet_b64_step", "bert_b1", "whisper_b1",
    "mobilenetv3_b1", "mixer_b64_training", "gpt2_b8_training", "distilbert_b1", "resnet18_b64_step",
)  # fmt: skip
"""All models, held-out ones alternating with the others and the most different kinds first, for a limited time."""


def build_model(name: str, *, tiny: bool = False) -> ModelCall:
    """The model of that name and the arguments of one call, in its dtype; float32 if `tiny`."""
    model = MODELS[name]
    torch.manual_seed(0)
    module, args, named = model.make(model.sizes(tiny=tiny))
    dtype = torch.float32 if tiny else getattr(torch, model.dtype)

    def cast(value: torch.Tensor) -> torch.Tensor:
        return value.to(dtype) if value.is_floating_point() else value

    module = module.to(dtype).train(model.work is not Work.INFERENCE)
    return module, tuple(map(cast, args)), {key: cast(value) for key, value in named.items()}


def source(name: str, *, tiny: bool = False) -> str:
    """A file of a user's that makes this call: the function `call`, and its inputs."""
    return (
        "from benchmarks.studies.tuned_models import made\n\n"
        f"model, args, named = made({name!r}, tiny={tiny})\n\n\n"
        "def call(*args, **named):\n"
        "    return model(*args, **named)\n\n\n"
        "def example_inputs():\n"
        "    return args, named\n"
    )
