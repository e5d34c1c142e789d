"""A counter of calls indexes a list of names elsewhere."""
import json
import torch
from torch import nn

# fuselight: Phases()(f32[3])
# fuselight: Phases()(f32[3])
# fuselight: Phases()(f32[3])
class Phases(nn.Module):
    NAMES = ["warm", "train", "cool", "done"] + ["over"] * 50

    def __init__(self):
        super().__init__()
        self.phase = 0

    def forward(self, x):
        self.phase += 1
        return x * self.phase

    def label(self):
        return self.NAMES[self.phase]

def probe_label():
    """state used as an index"""
    m = Phases()
    m(torch.ones(3))
    return m.label(), type(m.phase).__name__

def probe_json():
    """state written as JSON"""
    m = Phases()
    m(torch.ones(3))
    return json.dumps({"phase": m.phase})

def probe_reset():
    """state assigned from outside"""
    m = Phases()
    m(torch.ones(3))
    m.phase = 0
    return m(torch.ones(3)), m.phase

def probe_half():
    """dtype after half()"""
    m = Phases().half()
    return m(torch.ones(3, dtype=torch.float16))

def probe_integers():
    """dtype of integer input"""
    return Phases()(torch.tensor([1, 2, 3], dtype=torch.int8))
