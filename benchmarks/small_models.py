"""Small instances of any architecture of `transformers`, by rule and not by hand.

Invariant: an architecture is made as all others are: the sizes that its configuration has are replaced by name, and
nothing else is known of it. One that the rule does not fit has no instance. No weights are downloaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_BY_NAME: Mapping[str, int] = {
    **dict.fromkeys(
        ("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embed_dim", "embedding_size"), 32
    ),
    **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers"), 2),
    **dict.fromkeys(("decoder_layers", "num_decoder_layers", "num_encoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_local_experts", "num_experts", "n_routed_experts"), 2),
    **dict.fromkeys(
        ("intermediate_size", "d_ff", "ffn_dim", "hidden_dim", "n_inner", "moe_intermediate_size"), 64
    ),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 64),
    **dict.fromkeys(("head_dim", "d_kv", "attention_head_size"), 8),
    **dict.fromkeys(("vocab_size", "src_vocab_size", "tgt_vocab_size", "n_words"), 101),
    **dict.fromkeys(("num_conv_pos_embeddings",), 16),
    **dict.fromkeys(("num_conv_pos_embedding_groups",), 2),
}
"""The value of each size that a configuration may have."""
_CONVOLUTIONS = "conv_dim"
_TOKENS = "i64[2, 8] % 90 + 5"
_IMAGE = 64


@dataclass(frozen=True)
class SmallModel:
    """How to make a small instance, and how to call it."""

    package: str
    """The folder of the architecture in `transformers.models`."""
    file: str
    """The name of its file, without the suffix: `modeling_bert`."""
    configuration: str
    model: str
    sizes: dict[str, Any]
    call: str
    """The arguments of a call, as a directive writes them."""


def small_model(model_type: str) -> SmallModel:
    """The small instance of an architecture. Raises an exception of its configuration if the sizes do not fit it."""
    import transformers  # noqa: PLC0415 - seconds

    configuration = transformers.CONFIG_MAPPING[model_type]
    models = transformers.MODEL_MAPPING[configuration]
    model: Any = models[0] if isinstance(models, (list, tuple)) else models
    known = configuration().to_dict()
    sizes: dict[str, Any] = {key: value for key, value in _BY_NAME.items() if isinstance(known.get(key), int)}
    if isinstance(known.get(_CONVOLUTIONS), (list, tuple)):
        sizes[_CONVOLUTIONS] = [32] * len(known[_CONVOLUTIONS])
    if isinstance(known.get("image_size"), int):
        sizes["image_size"] = _IMAGE
    _, _, package, file = model.__module__.split(".")
    return SmallModel(package, file, configuration.__name__, model.__name__, sizes, _call(model, known))


def _call(model: Any, known: Mapping[str, Any]) -> str:
    """The inputs by the name of the first. Raises KeyError for an architecture with inputs of another kind."""
    channels, size = known.get("num_channels", 3), _IMAGE
    features = known.get("num_mel_bins", known.get("feature_size", 80))
    calls = {
        "input_ids": f"input_ids={_TOKENS}",
        "pixel_values": f"pixel_values=f32[2, {channels}, {size}, {size}]",
        "input_values": "input_values=f32[2, 4000]",
        "input_features": f"input_features=f32[2, 64, {features}]",
    }
    call = calls[model.main_input_name]
    return f"{call}, decoder_input_ids={_TOKENS}" if known.get("is_encoder_decoder") else call
