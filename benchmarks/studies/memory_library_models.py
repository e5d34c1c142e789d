"""Models of transformers and timm, from configurations, whose training steps were measured on a GPU.

`benchmarks/studies/memory_of_libraries.py` estimates and measures them. Nothing is downloaded: weights are random.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

_LENGTH = 1024


class LibraryModel(NamedTuple):
    """A model, and its input."""

    library: str
    name: str
    """Of the class, or timm's of the model."""
    batch: int
    options: dict[str, Any]
    """Of its configuration, or of timm."""
    kind: str = "text"
    """text, pairs of texts, images."""
    has_convolutions: bool = False

    def make(self) -> nn.Module:
        """The model, with its loss. Raises ImportError without its library."""
        module = importlib.import_module(self.library)
        if self.library == "timm":
            return _Images(module.create_model(self.name, **self.options))
        kind = getattr(module, self.name)
        options = {"use_cache": False, **self.options} if self.kind != "images" else self.options
        model = kind(kind.config_class(**options))
        wrappers = {"text": _Text, "pairs": _Text, "images": _Images}
        wrapped: nn.Module = wrappers[self.kind](model)
        return wrapped

    def make_input(self) -> torch.Tensor:
        """Tokens, or images in the default dtype."""
        if self.kind == "images":
            return torch.randn(self.batch, 3, 224, 224)
        return torch.randint(2, 1000, (self.batch, self.options.get("length", _LENGTH)))


class _Text(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = self.model(input_ids=tokens, labels=tokens).loss
        return loss


class _Images(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        output = self.model(images)
        logits: torch.Tensor = getattr(output, "logits", output)
        return logits


_WIDTH: dict[str, Any] = {"vocab_size": 32000, "hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 16}
_DECODER: dict[str, Any] = {**_WIDTH, "intermediate_size": 2816, "max_position_embeddings": 2048}
_GROUPED: dict[str, Any] = {**_DECODER, "num_key_value_heads": 4}
_BERT: dict[str, Any] = {**_WIDTH, "intermediate_size": 4096, "max_position_embeddings": 1030}
_GPT2: dict[str, Any] = {"vocab_size": 32000, "n_embd": 1024, "n_layer": 4, "n_head": 16, "n_positions": 1024}
_SEQUENCE: dict[str, Any] = {
    "vocab_size": 32000, "d_model": 768, "encoder_layers": 3, "decoder_layers": 3, "encoder_attention_heads": 12,
    "decoder_attention_heads": 12, "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072, "max_position_embeddings": 1024,
}  # fmt: skip
_VISION: dict[str, Any] = {"hidden_size": 768, "num_hidden_layers": 4, "num_attention_heads": 12, "intermediate_size": 3072}

_transformers = functools.partial(LibraryModel, "transformers")
_timm = functools.partial(LibraryModel, "timm", kind="images")

LIBRARY: dict[str, LibraryModel] = {
    "Llama": _transformers("LlamaForCausalLM", 8, _GROUPED),
    "Mistral": _transformers("MistralForCausalLM", 12, _GROUPED),
    "Qwen2": _transformers("Qwen2ForCausalLM", 8, _GROUPED),
    "Qwen3": _transformers("Qwen3ForCausalLM", 16, {**_GROUPED, "head_dim": 64}),
    "Gemma": _transformers("GemmaForCausalLM", 8, {**_GROUPED, "head_dim": 64}),
    "Gemma 2": _transformers("Gemma2ForCausalLM", 6, {**_GROUPED, "head_dim": 64}),
    "Phi": _transformers("PhiForCausalLM", 12, _DECODER),
    "Phi-3": _transformers("Phi3ForCausalLM", 8, {**_GROUPED, "pad_token_id": 0}),
    "GPT-2": _transformers("GPT2LMHeadModel", 10, _GPT2),
    "GPT-NeoX": _transformers("GPTNeoXForCausalLM", 12, _DECODER),
    "GPT-J": _transformers("GPTJForCausalLM", 8, {**_GPT2, "rotary_dim": 32}),
    "GPTBigCode": _transformers("GPTBigCodeForCausalLM", 8, _GPT2),
    "CodeGen": _transformers("CodeGenForCausalLM", 6, {**_GPT2, "rotary_dim": 32}),
    "OPT": _transformers("OPTForCausalLM", 12, {**_WIDTH, "ffn_dim": 4096, "max_position_embeddings": 1024, "word_embed_proj_dim": 1024}),
    "BLOOM": _transformers("BloomForCausalLM", 6, {"vocab_size": 32000, "hidden_size": 1024, "n_layer": 4, "n_head": 16}),
    "Falcon": _transformers("FalconForCausalLM", 8, {**_WIDTH, "max_position_embeddings": 2048}),
    "StableLM": _transformers("StableLmForCausalLM", 8, _GROUPED),
    "OLMo 2": _transformers("Olmo2ForCausalLM", 10, _GROUPED),
    "Cohere": _transformers("CohereForCausalLM", 8, _GROUPED),
    "Granite": _transformers("GraniteForCausalLM", 16, _GROUPED),
    "StarCoder 2": _transformers("Starcoder2ForCausalLM", 8, _GROUPED),
    "SmolLM 3": _transformers("SmolLM3ForCausalLM", 8, {**_GROUPED, "pad_token_id": 0}),
    "Persimmon": _transformers("PersimmonForCausalLM", 8, _DECODER),
    "Nemotron": _transformers("NemotronForCausalLM", 8, _GROUPED),
    "BERT": _transformers("BertForMaskedLM", 12, _BERT),
    "RoBERTa": _transformers("RobertaForMaskedLM", 16, _BERT),
    "ELECTRA": _transformers("ElectraForMaskedLM", 8, {**_BERT, "embedding_size": 1024}),
    "ALBERT": _transformers("AlbertForMaskedLM", 8, {**_BERT, "embedding_size": 128}),
    "DistilBERT": _transformers(
        "DistilBertForMaskedLM", 12, {"vocab_size": 32000, "dim": 1024, "n_layers": 4, "n_heads": 16, "hidden_dim": 4096, "max_position_embeddings": 1024}
    ),
    "ModernBERT": _transformers("ModernBertForMaskedLM", 8, {**_DECODER, "pad_token_id": 0}),
    "BART": _transformers("BartForConditionalGeneration", 8, _SEQUENCE, "pairs"),
    "Pegasus": _transformers("PegasusForConditionalGeneration", 8, _SEQUENCE, "pairs"),
    "T5": _transformers(
        "T5ForConditionalGeneration", 6, {"vocab_size": 32000, "d_model": 768, "d_ff": 2048, "d_kv": 64, "num_layers": 3, "num_heads": 12, "decoder_start_token_id": 0}, "pairs"
    ),
    "ViT": _transformers("ViTForImageClassification", 256, _VISION, "images"),
    "DINOv2": _transformers("Dinov2ForImageClassification", 128, {**_VISION, "image_size": 224}, "images"),
    "BEiT": _transformers("BeitForImageClassification", 192, _VISION, "images"),
    "timm ViT": _timm("vit_base_patch16_224", 128, {"depth": 6}),
    "timm MLP-Mixer": _timm("mixer_b16_224", 128, {}),
    "timm DeiT-3": _timm("deit3_small_patch16_224", 256, {}),
    "timm Swin": _timm("swin_tiny_patch4_window7_224", 96, {}),
    "timm ResNet-50": _timm("resnet50", 128, {}, has_convolutions=True),
    "timm EfficientNet": _timm("efficientnet_b0", 128, {}, has_convolutions=True),
    "timm ConvNeXt": _timm("convnext_tiny", 96, {}, has_convolutions=True),
    "timm RegNet": _timm("regnety_016", 128, {}, has_convolutions=True),
}  # fmt: skip
"""By the name that the page has."""
