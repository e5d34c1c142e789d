"""Attention as the target device would choose it, and in single operators."""

import torch
from torch.nn import functional as F


# fuselight: fused(bf16[2, 4, 128, 64], bf16[2, 4, 128, 64], bf16[2, 4, 128, 64])
def fused(query, key, value):
    scaled = query * 0.5  # kernel: triton_poi_fused__scaled_dot_product_cudnn_attention_mul
    return F.scaled_dot_product_attention(scaled, key, value, is_causal=True)
    # fallback: aten._scaled_dot_product_cudnn_attention
    # kernel: triton_poi_fused__scaled_dot_product_cudnn_attention_mul


# fuselight: single(bf16[2, 4, 128, 64], bf16[2, 4, 128, 64], bf16[2, 4, 128, 64])
def single(query, key, value):
    scores = query @ key.transpose(-1, -2)
    # kernel: extern_kernels.bmm
    # kernel(2.11): triton_per_fused__softmax_exp_prepare_softmax_online_sub_view
    # kernel(2.13, 2.14, 2.15): triton_per_fused__softmax_prepare_softmax_online_view
    weights = scores.softmax(-1)
    # kernel(2.11): triton_per_fused__softmax_exp_prepare_softmax_online_sub_view
    # kernel(2.13, 2.14, 2.15): triton_per_fused__softmax_prepare_softmax_online_view
    return (weights @ value).relu()  # kernel: extern_kernels.bmm  # kernel: triton_poi_fused_relu_view
