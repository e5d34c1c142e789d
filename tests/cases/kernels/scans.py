"""Sums along a dimension, sorting, and choosing by index."""

import torch


# fuselight: running(f32[16, 256])
def running(x):
    total = x.cumsum(-1)  # kernel: triton_per_fused_cumsum
    return total / total[:, -1:]
    # kernel: triton_poi_fused_div_slice
    # unfused: -1 the second reads what the first writes in another order or with other indices


# fuselight: chosen(f32[16, 256], i64[16, 8] % 256)
def chosen(x, index):
    picked = x.gather(1, index)  # kernel: triton_poi_fused_gather
    return picked.topk(2).values  # fallback: aten.topk
