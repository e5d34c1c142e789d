"""Another thread of state: a closure counts."""
import torch


def make():
    seen = {"n": 0}

    def step(x):
        if x.sum() > 0:
            y = x * 2
        else:
            y = x / 2
        seen["n"] += 1
        return y

    return step, seen


STEP, SEEN = make()


# fuselight: f(f32[4])
def f(x):
    return STEP(x) + 1


def probe_count():
    """state: each call counts once."""
    SEEN["n"] = 0
    a, b = f(torch.ones(2)), f(-torch.ones(2))
    return a, b, SEEN["n"]


def probe_integers():
    """dtype: a division gives floats on one side only."""
    return f(torch.tensor([1, 2])), f(torch.tensor([-1, -2]))
