"""A schedule of many steps, each of which is traced."""
import torch


def decay(x, steps):
    for _ in range(steps):
        x = x + 1.0
    return x


def run(x, weight):
    y = x @ weight
    y = decay(y, 100_000)
    return y.relu().sum()


if __name__ == "__main__":
    torch.compile(run)(torch.ones(3, 3), torch.ones(3, 3))
