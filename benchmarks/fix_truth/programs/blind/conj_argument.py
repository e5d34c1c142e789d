"""A conjugate view comes in."""
import torch

# fuselight: energy(c64[4])
# fuselight: energy(c64[4].conj())
@torch.compile
def energy(z):
    return (z * z.conj()).real, z.is_conj()

def probe_flag():
    """output flag"""
    return energy(torch.tensor([1 + 2j]).conj()), energy(torch.tensor([1 + 2j]))
