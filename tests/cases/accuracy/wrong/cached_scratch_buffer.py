# truth: the cache of a function is bypassed: every call gets a new buffer, and the running sum starts again
# stage: capture
# seen: result 1: eager 9, compiled 4.5; result 2: eager 13.5, compiled 4.5
from functools import lru_cache

import torch


@lru_cache(maxsize=4)
def scratch(size):
    return torch.zeros(size)


def accumulate(x):
    total = scratch(x.numel())  # <-
    total.add_(x)
    return total * 1.5


def main():
    scratch.cache_clear()
    compiled = torch.compile(accumulate)
    x = torch.tensor([1.0, 2.0, 3.0])
    return [compiled(x).clone() for _ in range(3)]


if __name__ == "__main__":
    print(main())
