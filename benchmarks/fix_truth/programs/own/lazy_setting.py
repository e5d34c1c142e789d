"""A property that counts its reads, on the right of `and`."""
import torch


class Settings:
    def __init__(self):
        self.reads = 0

    @property
    def doubles(self):
        self.reads += 1
        return True


SETTINGS = Settings()


# fuselight: f(f32[4])
def f(x):
    if x.sum() > 0 and SETTINGS.doubles:
        x = x * 2
    return x + 1


def probe_reads():
    """state: the property is read where the sum is positive."""
    SETTINGS.reads = 0
    f(-torch.ones(3))
    return SETTINGS.reads
