# truth: a table in a cache of functools is written by the compiled function; compiled code makes a new table each time
# stage: capture
# seen: result 1: eager 2, compiled 1; result 2: eager 1.5, compiled 0.5
import functools

import torch


@functools.cache
def history(name):
    return torch.zeros(4)


def smooth(x):
    average = history("loss")  # <-
    average.mul_(0.5).add_(x * 0.5)
    return average + 0.0


def main():
    history.cache_clear()
    compiled = torch.compile(smooth)
    return [compiled(torch.full((4,), value)) for value in (4.0, 2.0, 1.0)]


if __name__ == "__main__":
    print(main())
