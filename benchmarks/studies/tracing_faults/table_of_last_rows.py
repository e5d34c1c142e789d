"""A global that is deleted while it is traced."""
import torch


def pick(x, values):
    rows = values * 2
    global last
    last = rows
    del last
    return x * len(rows)


def step(x, y):
    x = x.sin() + y
    z = pick(x, [1, 2])
    w = x.cos() * z
    return w @ w.t()


if __name__ == "__main__":
    f = torch.compile(step)
    f(torch.ones(3, 3), torch.ones(3))
