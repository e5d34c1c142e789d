"""Small instances of any architecture of `transformers`, without a table: sizes by the names of configuration fields.

Invariant: sizes only, and inputs by the names of the parameters of `forward`. An architecture whose fields do not fit
together fails in its constructor or in its call: the caller leaves it out and says so.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

_SIZES: dict[str, Any] = {
    **dict.fromkeys(
        ("hidden_size", "d_model", "n_embd", "emb_dim", "embed_dim", "dim", "word_embed_proj_dim"), 32
    ),
    **dict.fromkeys(("embedding_size", "projection_dim", "encoder_hidden_size", "decoder_hidden_size"), 32),
    **dict.fromkeys(
        (
            "intermediate_size",
            "ffn_dim",
            "encoder_ffn_dim",
            "decoder_ffn_dim",
            "d_ff",
            "moe_intermediate_size",
        ),
        64,
    ),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"), 4),
    "decoder_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "d_kv": 8,
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers"), 1),
    **dict.fromkeys(("decoder_layers", "num_decoder_layers", "num_encoder_layers"), 1),
    "vocab_size": 101,
    "max_position_embeddings": 64,
    "max_source_positions": 64,
    "max_target_positions": 64,
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    "num_experts_per_tok": 2,
    "image_size": 32,
    "patch_size": 8,
    "use_cache": False,
    **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"), 1),
}
"""Fields of configurations; those that an architecture lacks are left out."""
_SAMPLES = 1600
_INPUTS: dict[str, tuple[str, tuple[int, ...]]] = {
    "input_ids": ("token", (2, 8)),
    "attention_mask": ("one", (2, 8)),
    "decoder_input_ids": ("token", (2, 8)),
    "bbox": ("token", (2, 8, 4)),
    "pixel_values": ("float", (2, 3, 32, 32)),
    "input_values": ("float", (2, _SAMPLES)),
    "input_features": ("float", (2, 80, 128)),
}
"""Inputs by the name of the parameter of `forward`: what its values are, and its sizes."""


def model_class(name: str) -> type[Any]:
    """The base model of an architecture, as `bert`. Raises LookupError or ImportError."""
    module = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    classes = [
        one
        for _, one in inspect.getmembers(module, inspect.isclass)
        if one.__module__ == module.__name__
        and one.__name__.endswith("Model")
        and hasattr(one, "config_class")
    ]
    full = [
        one for one in classes if not one.__name__.endswith(("PreTrainedModel", "TextModel", "VisionModel"))
    ]
    if not full:
        raise LookupError(f"{name} has no base model")
    return min(full, key=lambda one: len(one.__name__))


def configuration(kind: type[Any]) -> Any:
    """A small configuration of a class."""
    whole = kind()
    fields = {key: value for key, value in _SIZES.items() if key in whole.to_dict() or hasattr(whole, key)}
    for key, part in getattr(kind, "sub_configs", {}).items():
        if inspect.isclass(part) and part.__name__ != "AutoConfig":
            fields[key] = configuration(part).to_dict()
    return kind(**fields)


def inputs_of(model: Any) -> dict[str, Any]:
    """Inputs for the parameters of `forward` that have a usual meaning: tensors with fixed values."""
    import torch  # noqa: PLC0415 - the parent process needs none

    generator = torch.Generator().manual_seed(0)
    parameters = inspect.signature(model.forward).parameters
    made: dict[str, Any] = {}
    for name, (kind, sizes) in _INPUTS.items():
        if name in parameters:
            if kind == "float":
                made[name] = torch.randn(sizes, generator=generator)
            elif kind == "one":
                made[name] = torch.ones(sizes, dtype=torch.long)
            else:
                made[name] = torch.randint(2, 30, sizes, generator=generator)
    if "input_ids" not in made:
        made.pop("attention_mask", None)
    return made
