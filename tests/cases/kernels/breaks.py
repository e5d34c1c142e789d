"""A graph break splits one kernel into two; each part keeps its lines."""

import torch


# fuselight: whole(f32[64, 64])
def whole(x):
    y = (x * 2).relu()  # kernel: triton_poi_fused_add_exp_mul_relu
    return y.exp() + 1  # kernel: triton_poi_fused_add_exp_mul_relu


# fuselight: cut(f32[64, 64])
def cut(x):
    y = (x * 2).relu()  # kernel: triton_poi_fused_mul_relu
    print("cut here")
    return y.exp() + 1  # kernel: triton_poi_fused_add_exp
