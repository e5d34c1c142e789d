"""The optimizer's step and zero_grad are compiled together, in the trainer."""
import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self._update = torch.compile(self.update)

    def update(self):
        self.optimizer.step()
        # info: [GB0025] "graph break: torch's optimizers break the graph here by design"
        # info: [FL201] "recompiled: self.state was not created yet, now it is"
        self.optimizer.zero_grad(set_to_none=True)

    def fit(self, steps=4):
        for _ in range(steps):
            x = torch.randn(16, 8)
            loss = (self.model(x).squeeze() - x.sum(1)).pow(2).mean()
            loss.backward()
            self._update()
        return loss.item()


if __name__ == "__main__":
    print(Trainer().fit())
# run by: make corpora
