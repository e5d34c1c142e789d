"""Max-autotune: a GPU would time Triton templates against the library."""

import torch


# fuselight: multiply(bf16[2048, 2048], fake=True)
@torch.compile(mode="max-autotune-no-cudagraphs")
def multiply(x):
    return (x @ x).relu()  # kernel: extern_kernels.mm  # kernel: triton_poi_fused_relu
