from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

torch._dynamo.config.recompile_limit = 32


class Engine:
    def __init__(self):
        self.model = torch.compile(nn.Sequential(nn.Linear(16, 16), nn.GELU()), dynamic=False)
        # warning: [FL102] "`Sequential` is no longer compiled: it reached the recompile limit"
        # warning: [FL201] "recompiled: input.size(0) was 1, now 2"
        self.pool = ThreadPoolExecutor(max_workers=1)

    def submit(self, x):
        return self.pool.submit(self.model, x)
