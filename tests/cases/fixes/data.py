"""Fixes of numbers, sizes and branches that depend on data, with the text after."""

import torch


# fuselight: named_number(f32[4])
def named_number(x):
    most = x.max().item()
    # fix: [GB0124] keep_tensor "Keep the tensor"
    # = 2 -> 1 graphs, same results
    # -|    most = x.max().item()
    # +|    most = x.max()
    return x * most + most


# fuselight: deciding_number(f32[4])
def deciding_number(x):
    most = x.max().item()
    # fix: [GB0124] where "Use torch.where"
    # = 2 -> 1 graphs, same results
    # -|    most = x.max().item()
    # -|    if most > 0.5:
    # -|        x = x * 2
    # +|    most = x.max()
    # +|    x = torch.where(most > 0.5, x * 2, x)
    if most > 0.5:
        x = x * 2
    return x + 1


# fuselight: sliced(f32[8], i64[] % 4 + 2)
def sliced(x, size):
    return x[: size.item()] * 2
    # fix: [GB0124] capture_scalar_outputs "Set capture_scalar_outputs"
    # = 1 -> 1 graphs, same results
    #  |import torch
    # +|torch._dynamo.config.capture_scalar_outputs = True


# fuselight: experts(f32[6, 4], i64[6] % 2)
def experts(x, chosen):
    for expert in range(2):
        rows = torch.where(chosen == expert)[0]
        # fix: [GB0036] capture_dynamic_output_shape_ops "Set capture_dynamic_output_shape_ops"
        # = 0 -> 1 graphs, same results
        #  |import torch
        # +|torch._dynamo.config.capture_dynamic_output_shape_ops = True
        x = x.index_add(0, rows, x[rows] * 2)
    return x


# fuselight: distinct(i64[6] % 3)
def distinct(x):
    return torch.unique(x) + torch.bincount(x, minlength=3).sum()
    # fix: [GB0036] capture_dynamic_output_shape_ops "Set capture_dynamic_output_shape_ops"
    # = 1 -> 1 graphs, same results
    #  |import torch
    # +|torch._dynamo.config.capture_dynamic_output_shape_ops = True
