"""Settings whose attributes a method looks up, and misses once."""
import torch
from torch import nn


class Settings:
    def __init__(self, **values):
        self.values, self.missed = values, []

    def __getattr__(self, name):
        values = self.__dict__["values"]
        if name not in values:
            self.__dict__["missed"].append(name)
            raise AttributeError(name)
        return values[name]


# fuselight: Net()(f32[4])
class Net(nn.Module):
    def __init__(self, **values):
        super().__init__()
        self.settings = Settings(**(values or {"factor": 2.0}))

    def forward(self, x):
        if x.mean() > 0 and self.settings.factor > 1:
            return x * 2
        return x + 1


def probe_missing():
    """other: the attribute is not there, and not needed."""
    net = Net(other=1)
    return net(-torch.ones(2)), net.settings.missed
