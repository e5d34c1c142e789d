"""Explicit copies, and views, which are free."""

import torch


# fuselight: turned(f32[64, 128])
def turned(x):
    y = x.t().contiguous()  # kernel: triton_poi_fused_clone_t
    return torch.ops.aten.mm(x, y)  # kernel: extern_kernels.mm


# fuselight: joined(f32[64, 128])
def joined(x):
    left, right = x.chunk(2, dim=1)  # kernel: triton_poi_fused_cat_sin_split
    return torch.cat([right.sin(), left], dim=1)  # kernel: triton_poi_fused_cat_sin_split


# fuselight: viewed(f32[64, 128])
def viewed(x):
    y = x.view(32, 256)  # kernel: triton_poi_fused_add_slice_t_view
    return y.t()[1:] + 1  # kernel: triton_poi_fused_add_slice_t_view
