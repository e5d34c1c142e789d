"""Reductions in two directions, which do not fuse with each other, and one that fuses with its producer."""

import torch


# fuselight: across(f32[512, 512])
def across(x):
    rows = x.sum(1)  # kernel: triton_per_fused_sum
    columns = x.sum(0)
    # kernel: triton_per_fused_sum
    # kernel: triton_red_fused_sum
    # unfused: -1 they share no data: fusing them would save no memory traffic
    # unfused: 0 they share no data: fusing them would save no memory traffic
    return rows, columns


# fuselight: centred(f32[512, 512])
def centred(x):
    y = x.exp()  # kernel: triton_per_fused_exp_mean_sub
    mean = y.mean(-1, keepdim=True)  # kernel: triton_per_fused_exp_mean_sub
    return y - mean  # kernel: triton_per_fused_exp_mean_sub
