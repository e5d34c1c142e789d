"""A user's own class has a method called norm with an effect."""
import torch

class Journal:
    def __init__(self):
        self.lines = []

    def norm(self, x):
        self.lines.append("norm")
        return x * 2

    def sum(self, x):
        self.lines.append("sum")
        return x - 1

JOURNAL = Journal()

# fuselight: apply(f32[4])
@torch.compile
def apply(x):
    if x.sum() > 0:
        return JOURNAL.norm(x)
    return JOURNAL.sum(x)

def probe_effects():
    """state of the journal"""
    JOURNAL.lines.clear()
    apply(torch.ones(2))
    apply(-torch.ones(2))
    return list(JOURNAL.lines)
