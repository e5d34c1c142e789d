# ruff: noqa: E501 - MODELS is a table
"""The 46 models of Hugging Face, by the names of benchmarks/dynamo/huggingface_models_list.txt of PyTorch 2.0.

That list has 53 names. PyTorch 2.0 skipped six (Reformer, BlenderbotForConditionalGeneration, and both each of GPT-Neo
and GPT-J), and its runner could not make BigBird. Batch sizes are those of the list, divided as its runner did; lengths
are those of the runner. Real sizes are the defaults of the configuration, or those of the checkpoint that the runner
named.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from fuselight.shared.suites.models import Form, SuiteModel

GROUP = "huggingface"
PACKAGES = ("transformers",)

_SMALL: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 101,
}  # fmt: skip
_BART: dict[str, Any] = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "vocab_size": 101,
}  # fmt: skip
_T5: dict[str, Any] = {
    "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 4, "vocab_size": 101,
}  # fmt: skip
TINY: dict[str, dict[str, Any]] = {
    "Albert": {**_SMALL, "embedding_size": 16},
    "Bart": _BART,
    "Bert": _SMALL,
    "BigBird": {**_SMALL, "block_size": 4, "num_random_blocks": 1},
    "Blenderbot": _BART,
    "BlenderbotSmall": _BART,
    "Camembert": {**_SMALL, "max_position_embeddings": 64},
    "ConvBert": {**_SMALL, "embedding_size": 32},
    "Deberta": _SMALL,
    "DebertaV2": _SMALL,
    "DistilBert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "vocab_size": 101},
    "Electra": {**_SMALL, "embedding_size": 16},
    "FNet": {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64, "vocab_size": 101},
    "GPT2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 101, "bos_token_id": 0, "eos_token_id": 0},
    "LayoutLM": _SMALL,
    "Longformer": {**_SMALL, "attention_window": [4, 4], "max_position_embeddings": 66},
    "M2M100": _BART,
    "MBart": _BART,
    "MT5": _T5,
    "MegatronBert": _SMALL,
    "MobileBert": {**_SMALL, "embedding_size": 16, "intra_bottleneck_size": 16, "num_feedforward_networks": 2},
    "OPT": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 64, "vocab_size": 101, "word_embed_proj_dim": 32},
    "PLBart": _BART,
    "Pegasus": _BART,
    "Reformer": {"hidden_size": 32, "attention_head_size": 8, "num_attention_heads": 4, "feed_forward_size": 64, "vocab_size": 101, "attn_layers": ["local", "lsh"], "axial_pos_shape": [4, 16], "axial_pos_embds_dim": [8, 24], "local_attn_chunk_length": 4, "lsh_attn_chunk_length": 4, "num_buckets": 4, "max_position_embeddings": 64},
    "Roberta": {**_SMALL, "max_position_embeddings": 64},
    "T5": _T5,
    "TrOCR": {"d_model": 32, "decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 64, "vocab_size": 101},
    "XGLM": {"d_model": 32, "num_layers": 2, "attention_heads": 4, "ffn_dim": 64, "vocab_size": 101},
    "XLNet": {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64, "vocab_size": 101},
}  # fmt: skip
"""Sizes of the tiny form by configuration, less its suffix `Config`."""
VOCABULARIES: Mapping[str, int] = {
    "Albert": 30000, "Bart": 50265, "Bert": 30522, "Blenderbot": 8008, "BlenderbotSmall": 50265, "Camembert": 32005,
    "ConvBert": 30522, "Deberta": 50265, "DebertaV2": 128100, "DistilBert": 30522, "Electra": 30522, "FNet": 32000,
    "GPT2": 50257, "LayoutLM": 30522, "Longformer": 50265, "M2M100": 128112, "MBart": 50265, "MT5": 250112,
    "MegatronBert": 29056, "MobileBert": 30522, "OPT": 50272, "PLBart": 50005, "Pegasus": 50265, "Roberta": 50265,
    "T5": 32128, "TrOCR": 50265, "XGLM": 256008, "XLNet": 32000,
}  # fmt: skip
"""Number of tokens of the real form, by configuration."""


class Entry(NamedTuple):
    """One model of transformers."""

    name: str
    kind: str
    """Its class; empty if that has the same name."""
    family: str
    """Its configuration, less the suffix `Config`."""
    sizes: dict[str, Any]
    """What the real form changes of the configuration's defaults."""
    length: int
    """Tokens of a real input."""
    batch: int
    """Batch size of the real form."""


with open(os.path.splitext(__file__)[0] + ".json", encoding="utf-8") as file:
    TABLE = tuple(Entry(*row) for row in json.load(file))
ABSENT = {
    "Speech2Text2ForCausalLM": "transformers 5 no longer ships it (transformers 4 did)",
}
NOTES = {
    "BlenderbotForCausalLM": "real: without a cache of keys and values, which transformers 5 makes too small for it",
}
_WITH_DECODER_INPUTS = (
    *(
        "BlenderbotSmallForConditionalGeneration",
        "M2M100ForConditionalGeneration",
        "MT5ForConditionalGeneration",
    ),
    *("PegasusForConditionalGeneration", "T5ForConditionalGeneration"),
)
"""Classes that PyTorch's runner gives `decoder_input_ids`; the others make them of the labels."""
TINY_BATCH, TINY_LENGTH = 2, 16


def models() -> tuple[SuiteModel, ...]:
    """All 46."""
    return tuple(_model(entry) for entry in TABLE)


def _model(entry: Entry) -> SuiteModel:
    if entry.name in ABSENT:
        return SuiteModel(entry.name, GROUP, absent=ABSENT[entry.name])
    kind, family, batch = entry.kind or entry.name, entry.family, entry.batch
    kept = {key: value for key, value in entry.sizes.items() if key == "pad_token_id"}
    tiny = {**TINY[family], **kept}
    inputs = _inputs(kind, tiny["vocab_size"], TINY_BATCH, TINY_LENGTH)
    forms = {
        "tiny": Form(model_expression(kind, family, tiny), inputs, TINY_BATCH),
        "real": Form(
            model_expression(kind, family, entry.sizes),
            _inputs(kind, VOCABULARIES[family], batch, entry.length),
            batch,
        ),
    }
    imports = f"from transformers import {family}Config, {kind}"
    return SuiteModel(entry.name, GROUP, PACKAGES, imports, forms, note=NOTES.get(entry.name, ""))


def model_expression(kind: str, family: str, sizes: Mapping[str, Any]) -> str:
    """The expression that makes a model of transformers."""
    arguments = ", ".join(f"{key}={value!r}" for key, value in sizes.items())
    return f"{kind}({family}Config({arguments}))"


def _inputs(kind: str, vocabulary: int, batch: int, length: int) -> str:
    """Tokens, and labels as each head takes them. Roberta's runs have padding only: more tokens have no position."""
    tokens = f"i64[{batch}, {length}] % {1 if kind.startswith('Roberta') else vocabulary}"
    inputs = [f"input_ids={tokens}"]
    if kind in _WITH_DECODER_INPUTS:
        inputs.append(f"decoder_input_ids={tokens}")
    if kind.endswith("QuestionAnswering"):
        inputs += [f"{text}=i64[{batch}] % {length}" for text in ("start_positions", "end_positions")]
    elif kind.endswith("SequenceClassification"):
        inputs.append(f"labels=i64[{batch}] % 1")
    else:
        inputs.append(f"labels=i64[{batch}, {length}] % {vocabulary}")
    return ", ".join(inputs)
