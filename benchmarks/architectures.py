# ruff: noqa: E501 - MODELS is a table
"""Small configurations of the architectures of `transformers` on which capture is compared with torch's own record.

Invariant: sizes only: no weights are downloaded, and the library defines the architectures.
"""

from __future__ import annotations

from typing import Any

SMALL: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 101,
}  # fmt: skip
"""Sizes that most configurations share; what an architecture calls them otherwise stands in MODELS."""
T5 = {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "vocab_size": 101,
}
BART = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "vocab_size": 101, "max_position_embeddings": 64,
}  # fmt: skip
VISION = {**SMALL, "image_size": 32, "patch_size": 8}
SPEECH = {
    **SMALL, "conv_dim": [32, 32], "conv_stride": [5, 4], "conv_kernel": [10, 8], "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2,
}  # fmt: skip
MODELS: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "bert": ("BertConfig", "BertModel", SMALL, "text"),
    "distilbert": ("DistilBertConfig", "DistilBertModel", {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "vocab_size": 101}, "text"),
    "albert": ("AlbertConfig", "AlbertModel", {**SMALL, "embedding_size": 16}, "text"),
    "deberta_v2": ("DebertaV2Config", "DebertaV2Model", SMALL, "text"),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 101}, "text"),
    "gpt_neo": ("GPTNeoConfig", "GPTNeoModel", {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "vocab_size": 101}, "text"),
    "gpt_neox": ("GPTNeoXConfig", "GPTNeoXModel", SMALL, "text"),
    "opt": ("OPTConfig", "OPTModel", {**SMALL, "ffn_dim": 64, "word_embed_proj_dim": 32}, "text"),
    "bloom": ("BloomConfig", "BloomModel", {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 101}, "text"),
    "llama": ("LlamaConfig", "LlamaForCausalLM", {**SMALL, "num_key_value_heads": 2}, "text"),
    "mixtral": ("MixtralConfig", "MixtralModel", {**SMALL, "num_key_value_heads": 2, "num_local_experts": 4}, "text"),
    "mamba": ("MambaConfig", "MambaModel", {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 101, "state_size": 4}, "text"),
    "longformer": ("LongformerConfig", "LongformerModel", {**SMALL, "attention_window": 4}, "text"),
    "reformer": ("ReformerConfig", "ReformerModel", {"hidden_size": 32, "attention_head_size": 8, "num_attention_heads": 4, "feed_forward_size": 64, "vocab_size": 101, "attn_layers": ["local", "local"], "axial_pos_embds": False, "local_attn_chunk_length": 4, "max_position_embeddings": 64, "is_decoder": False}, "text"),
    "t5": ("T5Config", "T5Model", T5, "pair"),
    "bart": ("BartConfig", "BartModel", BART, "pair"),
    "switch": ("SwitchTransformersConfig", "SwitchTransformersModel", {**T5, "num_experts": 2}, "pair"),
    "vit": ("ViTConfig", "ViTModel", VISION, "image"),
    "swin": ("SwinConfig", "SwinModel", {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4}, "image"),
    "convnext": ("ConvNextConfig", "ConvNextModel", {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2}, "image"),
    "led": ("LEDConfig", "LEDModel", {**BART, "attention_window": [4, 4], "max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64}, "pair"),
    "wav2vec2": ("Wav2Vec2Config", "Wav2Vec2Model", SPEECH, "speech"),
    "hubert": ("HubertConfig", "HubertModel", SPEECH, "speech"),
    "wavlm": ("WavLMConfig", "WavLMModel", SPEECH, "speech"),
    "sew": ("SEWConfig", "SEWModel", {**SPEECH, "squeeze_factor": 2}, "speech"),
    "yoso": ("YosoConfig", "YosoModel", SMALL, "text"),
    "flaubert": ("FlaubertConfig", "FlaubertModel", {"emb_dim": 32, "n_layers": 2, "n_heads": 4, "vocab_size": 101}, "text"),
    "xlm": ("XLMConfig", "XLMModel", {"emb_dim": 32, "n_layers": 2, "n_heads": 4, "n_words": 101}, "text"),
    "ctrl": ("CTRLConfig", "CTRLModel", {"n_embd": 32, "dff": 64, "n_layer": 2, "n_head": 4, "vocab_size": 101}, "text"),
}  # fmt: skip
"""Configuration class, model class, sizes, kind of inputs."""
MORE: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "whisper": ("WhisperConfig", "WhisperModel", {**BART, "num_mel_bins": 16, "max_source_positions": 32, "max_target_positions": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}, "features"),
    "resnet": ("ResNetConfig", "ResNetModel", {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}, "image"),
    "beit": ("BeitConfig", "BeitModel", VISION, "image"),
    "dinov2": ("Dinov2Config", "Dinov2Model", VISION, "image"),
    "qwen2": ("Qwen2Config", "Qwen2Model", {**SMALL, "num_key_value_heads": 2}, "text"),
    "mistral": ("MistralConfig", "MistralModel", {**SMALL, "num_key_value_heads": 2}, "text"),
    "roberta": ("RobertaConfig", "RobertaModel", SMALL, "text"),
    "electra": ("ElectraConfig", "ElectraModel", {**SMALL, "embedding_size": 16}, "text"),
}  # fmt: skip
"""Architectures that only forecasts are compared on."""
