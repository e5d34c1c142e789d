"""A dimension that varies: the second call recompiles, and each compile has its kernel."""

import torch


# fuselight: rows(f32[64, 128])
# fuselight: rows(f32[96, 128])
def rows(x):
    y = x.softmax(-1)
    # kernel(2.11): triton_per_fused__softmax_exp_mul_prepare_softmax_online_sub x 2
    # kernel(2.13, 2.14, 2.15): triton_per_fused__softmax_mul_prepare_softmax_online x 2
    return y * x.shape[0]
    # kernel(2.11): triton_per_fused__softmax_exp_mul_prepare_softmax_online_sub x 2
    # kernel(2.13, 2.14, 2.15): triton_per_fused__softmax_mul_prepare_softmax_online x 2
