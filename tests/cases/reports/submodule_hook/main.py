# pytorch/pytorch#170110: a forward hook with kwargs on a submodule, made for each module
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, *, scale=None):
        return self.proj(x) * (scale if scale is not None else 1.0)


class Layer(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.attention = Attention(dim)
        self.mlp = nn.Linear(dim, dim)

    def forward(self, x, scale):
        return x + self.mlp(self.attention(x, scale=scale))
        # warning: [FL201] "recompiled: x.requires_grad was False, now True"


def add_scaling_hook(module, factor):
    def hook(module, args, kwargs, output):
        return output * factor

    module.register_forward_hook(hook, with_kwargs=True)


if __name__ == "__main__":
    torch.manual_seed(0)
    layers = [Layer() for _ in range(10)]
    for layer in layers:
        add_scaling_hook(layer.attention, factor=0.5)
    compiled = [torch.compile(layer, fullgraph=True) for layer in layers]
    x, scale = torch.randn(4, 16), torch.tensor(0.25)
    for layer in compiled:
        x = layer(x, scale)
    print(x.mean().item())
# run by: make corpora
