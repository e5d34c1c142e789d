"""A share that varies blends two tensors, once by an operator and once by hand."""
import torch

# fuselight: blend(f32[4], f32[4], 0.25)
# fuselight: blend(f32[4], f32[4], 0.5)
# fuselight: blend(f32[4], f32[4], 0.75)
@torch.compile
def blend(a, b, share):
    return torch.lerp(a, b, share).clamp(max=share)

# fuselight: shifted(f32[4], 0.25)
# fuselight: shifted(f32[4], 0.5)
# fuselight: shifted(f32[4], 0.75)
@torch.compile
def shifted(x, share):
    return torch.add(x, x * share, alpha=1) - share

def _pair(dtype=torch.float32):
    return torch.tensor([1.0, -2.0], dtype=dtype), torch.tensor([3.0, 4.0], dtype=dtype)

def probe_blend():
    """output"""
    return [blend(*_pair(), 0.3), blend(*_pair(), 0.0), blend(*_pair(), 1.0)]

def probe_blend_half():
    """dtype half precision"""
    return blend(*_pair(torch.float16), 0.1)

def probe_blend_double():
    """dtype double precision keeps the digits of the share"""
    return blend(*_pair(torch.float64), 0.1)

def probe_blend_integer_share():
    """other an integer share"""
    return blend(*_pair(), 1)

def probe_blend_tensor_share():
    """other a tensor share"""
    return blend(*_pair(), torch.tensor(0.5))

def probe_blend_gradients():
    """gradients at the limit"""
    x = torch.tensor([0.5, 2.0], requires_grad=True)
    blend(x, torch.tensor([0.5, 0.1]), 0.5).sum().backward()
    return x.grad

def probe_shifted():
    """output"""
    return [shifted(torch.tensor([1.0, 2.0]), one) for one in (0.1, 0.2, -0.0)]

def probe_shifted_bool_share():
    """other a bool share"""
    return shifted(torch.tensor([1.0, 2.0]), True)

def probe_shifted_huge():
    """half a share beyond the range of half precision"""
    return shifted(torch.tensor([0.0, 1e-4], dtype=torch.float16), 70000.0)

def probe_shifted_nan():
    """nonfinite"""
    return shifted(torch.ones(2), float("nan"))

def probe_shifted_integers():
    """dtype integers"""
    return shifted(torch.arange(3), 0.5)
