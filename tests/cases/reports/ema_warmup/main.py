# wandb/senpai#2899: an EMA of a compiled model, whose parameter names have a prefix, with a warmup
import torch
from torch import nn


class Ema:
    def __init__(self, model, decay):
        self.decay = decay
        self.updates = 0
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    @torch.compile
    def update(self, params):
    # hint: [FL106] "nothing to compile in `Ema.update`: its first call ran no tensor operators"
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        for name, param in params.items():
            if name in self.shadow:
                self.shadow[name].lerp_(param, 1 - decay)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    ema = Ema(model, decay=0.999)
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(5):
        loss = compiled(torch.randn(8, 4)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        ema.update(dict(compiled.named_parameters()))
    drift = sum((ema.shadow[n] - p).abs().sum() for n, p in model.named_parameters())
    print(loss.item(), drift.item())
# run by: make corpora
