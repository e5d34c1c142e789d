import logging

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

logger = logging.getLogger(__name__)


class Trainer:
    def __init__(self, model, lr=1e-2, max_norm=0.5):
        self.model = model
        self.max_norm = max_norm
        self.history = []
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        self.step = torch.compile(self._step)

    def _step(self, x, y):
        loss = nn.functional.cross_entropy(self.model(x), y)  # warning: [FL201] "recompiled: y.size(0) was 16, now 6"
        if torch.isnan(loss):  # warning: [GB0170] "graph break: a branch depends on the data of a tensor"
            raise ValueError("loss is NaN")
        self.history.append(loss.item())
        # warning: [FL201] "recompiled: self.history was empty, now [1.11376]"
        # warning: [FL201] "recompiled: the bound method `self.history.append` was freed"
        # warning: [GB0124] "graph break: `.item()` converts a tensor to a Python number"
        logger.debug("loss %.3f", self.history[-1])  # warning: [GB0291] "graph break: logging calls are not traced"
        return loss

    def fit(self, loader):
        for x, y in loader:
            loss = self.step(x, y)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)
            self.optimizer.step()
            self.optimizer.zero_grad()


if __name__ == "__main__":
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(70, 10), torch.randint(0, 3, (70,)))
    trainer = Trainer(nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3)))
    trainer.fit(DataLoader(dataset, batch_size=16))
    print(trainer.history)
# run by: make corpora
