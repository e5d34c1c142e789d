"""A model measures its stages and keeps the times."""
import time

import torch
from torch import nn


class Pipeline(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.encoder = nn.Linear(dim, dim)
        self.decoder = nn.Linear(dim, dim)
        self.times = {"encode": 0.0, "decode": 0.0}

    def forward(self, x):
        start = time.time()
        # warning: [FL201] "recompiled: start has another value in each call"
        # warning: [GB0007] "graph break: `time.time` is not traced by torch.compile"
        h = self.encoder(x).relu()
        self.times["encode"] += time.time() - start
        # warning: [GB0007] "graph break: `time.time` is not traced by torch.compile"
        # warning: [FL201] "recompiled: the value of `time.time()` on line 20 is another in each call"
        start = time.time()
        # warning: [GB0007] "graph break: `time.time` is not traced by torch.compile"
        out = self.decoder(h)
        self.times["decode"] += time.time() - start
        # warning: [GB0007] "graph break: `time.time` is not traced by torch.compile"
        return out


if __name__ == "__main__":
    model = torch.compile(Pipeline().eval(), backend="eager")
    with torch.no_grad():
        for _ in range(4):
            model(torch.randn(2, 16))
    print(sorted(model.times))
# run by: make corpora
