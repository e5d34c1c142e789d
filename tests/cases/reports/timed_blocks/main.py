# pytorch/rl#3297, pytorch/torchdynamo#219: timing and profiling helpers in compiled code
import contextlib
from collections import defaultdict
from time import perf_counter

import torch
from torch import nn
from torch.profiler import record_function


class timeit(contextlib.ContextDecorator):
    totals = defaultdict(float)

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.start = perf_counter()
        # warning: [GB0007] "graph break: `time.perf_counter` is not traced by torch.compile"

    def __exit__(self, *error):
        timeit.totals[self.name] += perf_counter() - self.start


class QLoss(nn.Module):
    def __init__(self, dim=8, actions=3):
        super().__init__()
        self.value = nn.Linear(dim, actions)
        self.target = nn.Linear(dim, actions)

    def forward(self, state, action, reward, following):
    # info: [FL101] "`QLoss.forward` is not compiled: torch skipped it"
        with timeit("value"), record_function("value"):
            value = self.value(state).gather(1, action)
        with timeit("target"), torch.no_grad():
            target = reward + 0.99 * self.target(following).amax(1, keepdim=True)
        return nn.functional.smooth_l1_loss(value, target)


if __name__ == "__main__":
    torch.manual_seed(0)
    loss_module = torch.compile(QLoss())
    for _ in range(3):
        loss = loss_module(
            torch.randn(4, 8), torch.randint(3, (4, 1)), torch.randn(4, 1), torch.randn(4, 8)
        )
        loss.backward()
    print(loss.item(), sorted(timeit.totals))
# run by: make corpora
