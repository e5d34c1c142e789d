"""the order of the keys is the order of the result."""

import torch


# fuselight: join({"a": f32[2], "b": f32[2]})
# fuselight: join({"b": f32[2], "a": f32[2]})
@torch.compile
def join(parts):
    return torch.cat(list(parts.values()))


def probe_order():
    """other: the other order."""
    return join({"b": torch.zeros(2), "a": torch.ones(2)})
