# pytorch/pytorch#141589: policy, value, reference and reward models share compiled layers
import copy

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.mlp = nn.Linear(dim, dim)

    def forward(self, x, mask=None):  # info: [FL201] "recompiled: grad mode was off, now on"
        h = self.mlp(self.norm(x))
        # warning: [FL201] "recompiled: self.mlp.bias.requires_grad was True, now False"
        # warning: [FL201] "recompiled: x.requires_grad was False, now True"
        if mask is not None:
            h = h * mask
        return x + h


class Decoder(nn.Module):
    def __init__(self, outputs, layers=2):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.output = nn.Linear(16, outputs)
        for layer in self.layers:
            layer.compile(backend="aot_eager")

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return self.output(x)


if __name__ == "__main__":
    torch.manual_seed(0)
    policy, value, reward = Decoder(32), Decoder(1), Decoder(1)
    reference = copy.deepcopy(policy)
    reference.requires_grad_(False)
    reward.requires_grad_(False)
    x = torch.randn(2, 5, 16)
    mask = torch.ones(2, 5, 1)
    with torch.no_grad():
        old, base = policy(x, mask), reference(x, mask)
        advantage = reward(x) - value(x, mask)
    loss = -(policy(x, mask) - base).mean() + value(x, mask).pow(2).mean()
    loss.backward()
    print(loss.item(), advantage.mean().item())
# run by: make corpora
