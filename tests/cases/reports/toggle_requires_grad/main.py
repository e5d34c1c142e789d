"""Some tensors start to be optimized only after a few iterations."""
import torch
from torch import nn


class Reconstruction(nn.Module):
    def __init__(self):
        super().__init__()
        self.obj = nn.Parameter(torch.rand(8, 8))
        self.probe = nn.Parameter(torch.rand(8, 8))
        self.tilt = nn.Parameter(torch.zeros(2))
        self.start = {"obj": 0, "probe": 2, "tilt": 4}

    def forward(self, shift):
        exit_wave = self.obj * self.probe  # warning: [FL201] "recompiled: self.probe.requires_grad was False, now True"
        return (exit_wave + shift * self.tilt.sum()).pow(2).sum()
        # warning: [FL201] "recompiled: self.tilt.requires_grad was False, now True"

    def toggle(self, iteration):
        for name, begin in self.start.items():
            getattr(self, name).requires_grad_(iteration >= begin)


if __name__ == "__main__":
    model = Reconstruction()
    step = torch.compile(model)
    for iteration in range(6):
        model.toggle(iteration)
        loss = step(torch.tensor(0.1))
        model.zero_grad()
        loss.backward()
# run by: make corpora
