"""A die with an inclusive upper end is added."""
import random

import torch

# fuselight: rolled(f32[4])
@torch.compile
def rolled(x):
    return x + random.randint(1, 3)

def _faces(x):
    random.seed(1)
    torch.manual_seed(1)
    seen = {int(rolled(x).reshape(-1)[0]) for _ in range(60)}
    if seen != {1, 2, 3}:
        raise ArithmeticError("not the faces of the die")
    return len(seen)

def probe_faces():
    """output takes each of three faces"""
    return _faces(torch.zeros(2))

def probe_faces_double():
    """dtype float64"""
    return _faces(torch.zeros(2, dtype=torch.float64))

def probe_byte():
    """dtype uint8 stays"""
    return rolled(torch.zeros(3, dtype=torch.uint8)).dtype

def probe_byte_scalar():
    """dtype uint8 without dimensions stays"""
    return rolled(torch.tensor(3, dtype=torch.uint8)).dtype

def probe_half_scalar():
    """dtype float16 without dimensions stays"""
    return rolled(torch.tensor(3, dtype=torch.float16)).dtype

def probe_bool():
    """dtype bool becomes int64"""
    return rolled(torch.tensor([True, False])).dtype

def probe_same_for_all():
    """output one roll for all elements"""
    out = rolled(torch.zeros(50))
    if len(set(out.tolist())) != 1:
        raise ArithmeticError("several rolls")
    return out.shape

def probe_empty():
    """empty input"""
    return rolled(torch.zeros(0, 3))
