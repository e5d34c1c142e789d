"""Conjugate views come and go, one is changed in place, and asked for its kind."""
import torch

# fuselight: energy(c64[3])
# fuselight: energy(c64[3].conj())
@torch.compile
def energy(z):
    return (z * z).real.sum(), z.imag

# fuselight: turned(c64[3])
# fuselight: turned(c64[3].conj())
@torch.compile
def turned(z):
    z.mul_(1j)
    return z + 1

# fuselight: kind(c64[3])
# fuselight: kind(c64[3].conj())
@torch.compile
def kind(z):
    return z.is_conj(), z * 2

def _z():
    return torch.tensor([1 + 2j, 3 - 1j])

def probe_energy():
    """output"""
    return energy(_z()), energy(_z().conj()), energy(torch.tensor([1.5 + 0j]))

def probe_energy_real():
    """dtype real numbers fail"""
    try:
        return energy(torch.ones(2))
    except RuntimeError:
        return "fails"

def probe_turned():
    """state the base is changed"""
    z = _z()
    y = turned(z.conj())
    return z, y

def probe_turned_plain():
    """state"""
    z = _z()
    return turned(z), z

def probe_kind():
    """output"""
    return kind(_z()), kind(_z().conj())

def probe_imag_memory():
    """output of a part"""
    z = _z()
    energy(z.conj())[1].mul_(2) if False else energy(z)[1].mul_(2)
    return z
