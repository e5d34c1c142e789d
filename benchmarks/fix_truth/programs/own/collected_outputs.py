"""the function appends to its list."""

import torch


# fuselight: keep([f32[4]])
# fuselight: keep((f32[4],))
@torch.compile
def keep(xs):
    y = sum(xs)
    if isinstance(xs, list):
        xs.append(y)
    return y


def probe_list():
    """state: the list is longer."""
    xs = [torch.ones(2)]
    y = keep(xs)
    return y, len(xs)


def probe_tuple():
    """other: a tuple stays."""
    return keep((torch.ones(2),))
