# pytorch/pytorch#88576: a torch.Generator goes into a compiled denoising step
import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim + 1, 16), nn.SiLU(), nn.Linear(16, dim))

    def forward(self, x, t):
        return self.net(torch.cat([x, t.expand(x.size(0), 1)], dim=1))


@torch.compile
def sample_step(model, x, t, eta, generator=None):
    noise = model(x, t)
    x = x - 0.1 * noise
    if eta > 0:  # warning: [FL201] "recompiled: eta was 0.0, now 0.3"
        x = x + eta * torch.randn(x.shape, generator=generator)
        # warning: [FL201] "recompiled: generator was None, now a torch._C.Generator"
        # warning: [FL201] "recompiled: eta was 0.3, now 0.7"
        # warning: [GB0055] "graph break: an argument of this call cannot be part of a graph"
    return x


@torch.no_grad()
def sample(model, eta, seed=None, steps=3):
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    x = torch.randn(4, 8, generator=generator)
    for step in range(steps):
        x = sample_step(model, x, torch.tensor([step / steps]), eta, generator)
    return x


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Denoiser()
    for eta, seed in ((0.0, None), (0.3, None), (0.3, 1), (0.7, 2)):
        print(sample(model, eta, seed).std().item())
# run by: make corpora
