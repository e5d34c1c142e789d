"""Tensors are printed that are lazily conjugated, or mapped by torch.func."""

import torch


# fuselight: shown(f32[3])
@torch.compile
def shown(x):
    y = x * 2
    print("y", y)
    return y + 1


def probe_plain():
    """Output of a plain tensor."""
    return shown(torch.ones(2))


def probe_mapped():
    """Transform by vmap."""
    return torch.vmap(shown)(torch.ones(2, 3))


def probe_conjugate():
    """Transform of a lazy conjugate, which a product resolves."""
    return shown(torch.ones(2, dtype=torch.complex64).conj())
