"""Returns a dataclass that keeps a number."""
from dataclasses import dataclass
import torch

@dataclass
class Result:
    values: torch.Tensor
    best: float

    def percent(self):
        return f"{self.best:.1%}"

# fuselight: score(f32[4])
@torch.compile
def score(x):
    p = x.softmax(0)
    return Result(p, p.max().item())

def probe_number():
    """output number"""
    r = score(torch.tensor([1.0, 2.0]))
    return r.values, r.percent(), type(r.best).__name__
