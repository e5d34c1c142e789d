import torch
from torch import nn

SCALE = 1.0
DEBUG = False
OPTIONS = {"clip": False, "bound": 1000.0}


class Step(nn.Module):
    momentum = 0.0
    reverse = False

    def __init__(self):
        super().__init__()
        self.gain = 1.0
        self.last = torch.zeros(8)

    def forward(self, x):
        y = x * SCALE * self.gain
        if DEBUG: print("step", y.shape)
        if OPTIONS["clip"]:
            y = y.clamp(-0.5, 0.5)
        y = y.clamp(-OPTIONS["bound"], OPTIONS["bound"])
        if self.reverse:
            y = y.flip(-1)
        return y + self.momentum * self.last


# fuselight: Step()(f32[4, 8])
