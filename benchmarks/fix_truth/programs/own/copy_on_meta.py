"""Outputs on two devices."""
import torch


# fuselight: f(f32[4, 3])
@torch.compile
def f(x):
    k = x.argmax().item()
    return x * k, torch.empty(x.shape[1], k + 1, device="meta")


def probe_shape():
    """output: shape and device of the copy."""
    y, shape = f(torch.eye(3))
    return y, list(shape.shape), str(shape.device), str(shape.dtype)


def probe_large():
    """size: more elements."""
    y, shape = f(torch.arange(20.0).reshape(5, 4))
    return y, list(shape.shape)
