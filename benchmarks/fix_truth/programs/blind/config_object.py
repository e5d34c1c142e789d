"""A data class of settings varies: floats, None, flags and an enumeration."""
import dataclasses
import enum
import torch
from torch import nn

class Kind(enum.Enum):
    ADD = 1
    SCALE = 2

@dataclasses.dataclass
class Settings:
    rate: float = 0.5
    bias: float | None = None
    flag: bool = False
    kind: Kind = Kind.ADD

# fuselight: apply(f32[3], Settings())
# fuselight: apply(f32[3], Settings(0.25))
# fuselight: apply(f32[3], Settings(0.125))
# fuselight: apply(f32[3], Settings(0.125, 1.0, True, Kind.SCALE))
@torch.compile
def apply(x, settings):
    x = x * settings.rate
    if settings.bias is not None:
        x = x + settings.bias
    if settings.flag:
        x = -x
    return x + 1 if settings.kind is Kind.ADD else x * 2

# fuselight: Net(Settings())(f32[3])
class Net(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.settings = settings

    def forward(self, x):
        self.settings.rate = self.settings.rate * 0.5
        return apply(x, self.settings)

def probe_apply():
    """option"""
    out = []
    for one in (Settings(), Settings(2), Settings(0.1, 0.0), Settings(True, flag=True), Settings(0.5, 1, 1, Kind.SCALE)):
        out.append(apply(torch.ones(2), one))
    return out

def probe_apply_dtype():
    """dtype integers"""
    return apply(torch.tensor([3]), Settings(2)), apply(torch.tensor([3]), Settings(0.5))

def probe_net():
    """state of the settings"""
    one = Settings()
    net = Net(one)
    return [net(torch.ones(2)), net(torch.ones(2))], dataclasses.asdict(one), one == Settings(0.125)

def probe_scalar():
    """rank none"""
    return apply(torch.tensor(1.0).half(), Settings(0.1))
