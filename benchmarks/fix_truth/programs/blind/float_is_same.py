"""A conversion that is none returns the argument, whose flag the caller reads."""
import torch

# fuselight: energy(f32[3, 2], no_grad=False)
# fuselight: energy(f64[3, 2], no_grad=False)
@torch.compile
def energy(x):
    positions = x.float()
    positions.requires_grad = True
    return (positions * positions).sum(-1)

def _flags(x):
    out = energy(x)
    return [out, out.requires_grad, x.requires_grad]

def probe_single():
    """state single precision: the argument itself gets the flag"""
    return _flags(torch.ones(2, 2))

def probe_double():
    """dtype double precision: a copy gets it"""
    return _flags(torch.ones(2, 2, dtype=torch.float64))

def probe_gradient():
    """gradients reach the argument"""
    x = torch.tensor([[1.0, 2.0]])
    energy(x).sum().backward()
    return x.grad

def probe_integers():
    """dtype integers"""
    return _flags(torch.ones(2, 2, dtype=torch.int64))

def probe_without_gradients():
    """mode the flag is set without gradients, too"""
    x = torch.ones(1, 2)
    with torch.no_grad():
        energy(x)
    return x.requires_grad

def probe_again():
    """state a second call with the same argument"""
    x = torch.ones(1, 2)
    energy(x)
    return [energy(x), x.is_leaf]
