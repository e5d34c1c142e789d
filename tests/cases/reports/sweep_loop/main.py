import itertools

import torch
from torch import nn


def make_net(hidden, dropout):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp = nn.Linear(12, hidden)
            self.out = nn.Linear(hidden, 1)
            self.dropout = nn.Dropout(dropout)

        def forward(self, x):
        # warning: [FL102] "`make_net.Net.forward` is no longer compiled: it reached the recompile limit"
            return self.out(self.dropout(self.inp(x).relu()))
            # warning: [FL201] "recompiled: the class Net of self was created again"

    return Net()


def evaluate(hidden, dropout):
    net = torch.compile(make_net(hidden, dropout))
    x, y = torch.randn(32, 12), torch.randn(32, 1)
    return nn.functional.mse_loss(net(x), y).item()


if __name__ == "__main__":
    results = {}
    for hidden, dropout in itertools.product([8, 16, 32, 64], [0.0, 0.1, 0.3]):
        results[hidden, dropout] = evaluate(hidden, dropout)
    print(min(results, key=results.get))
# run by: make corpora
