"""A branch inside try and finally."""
import torch

EVENTS = []

# fuselight: attempt(f32[4])
@torch.compile
def attempt(x):
    try:
        if x.min() < 0:
            raise ValueError("negative")
        return x.sqrt()
    except ValueError:
        return x * 0
    finally:
        EVENTS.append("end")

def probe_both():
    """state and results of both ways"""
    EVENTS.clear()
    return attempt(torch.tensor([4.0])), attempt(torch.tensor([-4.0])), list(EVENTS)
