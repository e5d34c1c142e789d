"""One side of a branch is a lazy conjugate view, the other the tensor itself."""
import torch

# fuselight: facing(c64[4])
@torch.compile
def facing(z):
    if z.real.sum() > 0:
        return z.conj()
    return z

def _tell(out):
    return {"value": out.resolve_conj(), "conj": out.is_conj(), "dtype": out.dtype, "complex": out.is_complex()}

def probe_conjugated():
    """output with the lazy flag"""
    return _tell(facing(torch.tensor([1 + 2j, 3 - 1j])))

def probe_plain():
    """output without the lazy flag"""
    return _tell(facing(torch.tensor([-1 + 2j, -3 - 1j])))

def probe_flagged_argument():
    """output of an argument that is a conjugate view already"""
    return _tell(facing(torch.tensor([1 + 2j, 3 - 1j]).conj()))

def probe_real():
    """dtype real numbers do not occur"""
    return facing(torch.view_as_real(torch.tensor([1 + 2j])).sum(-1).to(torch.complex128))

def probe_gradients():
    """gradients of a complex input"""
    z = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    (facing(z) * torch.tensor([2j, 1 + 1j])).abs().sum().backward()
    return z.grad

def probe_nonfinite():
    """nonfinite imaginary part of the side that is not taken"""
    return torch.view_as_real(facing(torch.tensor([complex(1, float("inf")), complex(2, float("nan")), complex(0, -0.0)])).resolve_conj())

def probe_empty():
    """empty input"""
    return _tell(facing(torch.zeros(0, dtype=torch.complex64)))
