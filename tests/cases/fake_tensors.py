"""Models that are built and captured without data, because the directive asks for it."""

from torch import nn


# fuselight: Enormous()(f32[2, 65536], fake=True)
class Enormous(nn.Module):  # info: [FL602] "fake tensors"
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(65536, 65536) for _ in range(4)))

    def forward(self, x):
        return self.layers(x)
