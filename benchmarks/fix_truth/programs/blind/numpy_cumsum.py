"""Running sums by NumPy, which gives small integers a larger type."""
import numpy as np
import torch

@torch.compiler.disable
def running(x):
    return torch.from_numpy(np.cumsum(x.detach().numpy(), axis=-1))

# fuselight: accumulated(f32[2, 4])
@torch.compile
def accumulated(x):
    return running(x * 2) + 1

def probe_floats():
    """output of float32"""
    return accumulated(torch.arange(6.0).reshape(2, 3))

def probe_int32():
    """dtype int32 becomes int64"""
    return accumulated(torch.tensor([1, 2, 3], dtype=torch.int32))

def probe_int32_large():
    """extreme the sums do not fit into int32"""
    return accumulated(torch.tensor([2**30 - 1] * 3, dtype=torch.int32))

def probe_uint8():
    """dtype uint8 becomes unsigned and wide"""
    out = running(torch.tensor([200, 100], dtype=torch.uint8))
    return [str(out.dtype), out.to(torch.int64)]

def probe_bool():
    """dtype bool counts"""
    return running(torch.tensor([True, True, False]))

def probe_half():
    """dtype float16 rounds at each step"""
    return accumulated(torch.full((1, 3000), 0.5, dtype=torch.float16))[:, -1]

def probe_scalar():
    """size no dimension becomes one"""
    return accumulated(torch.tensor(3.0))

def probe_transposed():
    """strides of a transposed input"""
    return running(torch.arange(6.0).reshape(2, 3).t())

def probe_empty():
    """empty rows"""
    return accumulated(torch.zeros(2, 0))

def probe_requires_grad():
    """gradients stop at NumPy"""
    out = accumulated(torch.ones(3, requires_grad=True))
    return [out.requires_grad, out]

def probe_conjugate():
    """other a conjugate view has no array"""
    try:
        return running(torch.tensor([1 + 1j]).conj())
    except RuntimeError:
        return "refused"

def probe_bfloat16():
    """dtype bfloat16 has no array"""
    try:
        return accumulated(torch.ones(2, dtype=torch.bfloat16))
    except TypeError:
        return "refused"
