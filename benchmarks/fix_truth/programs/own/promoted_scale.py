"""a float argument with tensors of other dtypes."""

import torch


# fuselight: scale(f32[4], 0.5)
# fuselight: scale(f32[4], 0.25)
@torch.compile
def scale(x, rate):
    return (x.sum() * rate, x * rate)


def probe_types():
    """dtype: results without dimensions keep theirs."""
    return scale(torch.ones(2), 0.1), scale(torch.ones(2, dtype=torch.int64), 0.1)
