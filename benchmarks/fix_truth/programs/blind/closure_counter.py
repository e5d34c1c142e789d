"""A closure counts."""
import torch

def make():
    count = 0

    @torch.compile
    def step(x):
        nonlocal count
        count += 1
        return x * count

    return step, lambda: count

STEP, COUNT = make()

# fuselight: run(f32[2])
# fuselight: run(f32[2])
# fuselight: run(f32[2])
def run(x):
    return STEP(x)

def probe_count():
    """state of the closure"""
    before = COUNT()
    run(torch.ones(1))
    run(torch.ones(1))
    return COUNT() - before, type(COUNT()).__name__
