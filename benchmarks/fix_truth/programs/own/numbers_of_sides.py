"""A side reads a number that callers leave out, or pass as a tensor, where the side is not taken."""

import math

import torch


# fuselight: damp(f32[4], 0.5)
@torch.compile
def damp(x, rate):
    if x.sum() > 1:
        x = x * rate
    return x


def _caught(*arguments):
    try:
        return damp(*arguments)
    except Exception as error:
        return type(error).__name__


def probe_taken():
    """Values of both sides."""
    return damp(torch.full((3,), 2.0), 0.5) + 0, damp(torch.zeros(3), 0.5) + 0


def probe_none():
    """Number that is None where its side is not taken."""
    return _caught(torch.zeros(3), None)


def probe_rows():
    """Number that is a tensor with rows."""
    return damp(torch.zeros(3), torch.ones(2, 1)) + 0


def probe_infinity():
    """Number that is infinite, and gradients."""
    x = torch.zeros(3, requires_grad=True)
    damp(x, math.inf).sum().backward()
    return x.grad
