"""a number compared with 0.1, which float32 does not have."""

import torch


# fuselight: gated(f32[4])
def gated(x):
    level = x.max().item()
    if level > 0.1:
        x = x * 2
    return x


def probe_at_the_limit():
    """extreme: the float32 next to 0.1 is larger."""
    return gated(torch.tensor([0.1])), gated(torch.tensor([0.09999999]))


def probe_half():
    """dtype: half precision."""
    return gated(torch.tensor([0.1], dtype=torch.float16)), gated(torch.tensor([0.1], dtype=torch.bfloat16))
