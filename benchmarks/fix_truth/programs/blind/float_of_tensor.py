"""float() of a tensor that may require gradients."""
import torch

# fuselight: shifted(f32[4], f32[])
@torch.compile
def shifted(x, t):
    s = float(t)
    return x + s, s

def probe_type():
    """output type"""
    y, s = shifted(torch.ones(2), torch.tensor(3))
    return y, type(s).__name__

def probe_grad():
    """gradients do not reach t"""
    t = torch.tensor(2.0, requires_grad=True)
    x = torch.ones(2, requires_grad=True)
    shifted(x, t)[0].sum().backward()
    return t.grad, x.grad
