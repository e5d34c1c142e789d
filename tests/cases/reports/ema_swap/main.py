"""Weights are swapped with their average before evaluation, and back after it."""
import torch
from torch import nn


class Ema:
    def __init__(self, model, decay=0.9):
        self.decay = decay
        self.shadow = {k: v.detach().clone() for k, v in model.named_parameters()}
        self.backup = {}

    @torch.no_grad()
    def update(self, model):
        for k, v in model.named_parameters():
            if k in self.shadow:
                self.shadow[k].lerp_(v, 1 - self.decay)

    def apply(self, model):
        for k, v in model.named_parameters():
            self.backup[k] = v.data
            v.data = self.shadow[k]

    def restore(self, model):
        for k, v in model.named_parameters():
            v.data = self.backup[k]


def main():
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    compiled = torch.compile(model)
    ema = Ema(compiled)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        compiled(torch.randn(8, 4)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        ema.update(model)
        ema.apply(compiled)
        with torch.no_grad():
            compiled(torch.ones(1, 4))  # info: [FL201] "recompiled: grad mode was on, now off"
        ema.restore(compiled)


if __name__ == "__main__":
    main()
# run by: make corpora
