"""A method with the name of a pure one has effects."""
import torch


class Log:
    def __init__(self):
        self.seen = []

    def norm(self, x):
        self.seen.append("norm")
        return x * 0.5


LOG = Log()


# fuselight: f(f32[4])
def f(x):
    if x.sum() > 0:
        y = LOG.norm(x)
    else:
        y = x * 3
    return y


def probe_effects():
    """state: the log after each side."""
    LOG.seen.clear()
    a = f(torch.ones(4))
    b = f(-torch.ones(4))
    return a, b, list(LOG.seen)


def probe_untaken():
    """state: the side that is not taken."""
    LOG.seen.clear()
    f(-torch.ones(2))
    return list(LOG.seen)
