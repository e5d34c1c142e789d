"""Text, bools and None decide; a layer is chosen by a string, a size is written into text."""
import torch
from torch import nn

# fuselight: Choice()(f32[4, 3], "a")
# fuselight: Choice()(f32[5, 3], "b")
# fuselight: Choice()(f32[6, 3], "a", True)
# fuselight: Choice()(f32[7, 3], "b", None)
class Choice(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({"a": nn.Identity(), "b": nn.Softmax(-1)})
        self.names = {}

    @torch.compile
    def forward(self, x, name, flag=False):
        key = f"{name}{x.shape[0]}"
        self.names[key] = x.shape[0]
        y = self.layers[name](x)
        if flag is None:
            return y, key
        return (y * 2 if flag else y) / x.shape[0], key

def probe_names():
    """state of the names"""
    net = Choice()
    out = [net(torch.ones(n, 3), "a") for n in (2, 3, 1)]
    return out, net.names

def probe_types():
    """output of the sizes"""
    net = Choice()
    net(torch.ones(4, 3), "b", None)
    net(torch.ones(5, 3), "b", None)
    return [type(v).__name__ for v in net.names.values()], net.names

def probe_zero():
    """empty"""
    return Choice()(torch.ones(0, 3), "a", None)

def probe_division():
    """empty division"""
    return Choice()(torch.ones(0, 3), "a", 1)

def probe_unknown():
    """other an unknown name"""
    try:
        return Choice()(torch.ones(2, 3), "c")
    except Exception as e:
        return type(e).__name__
