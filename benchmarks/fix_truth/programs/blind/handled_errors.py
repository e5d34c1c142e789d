"""Exceptions of tensors are handled: a view that fails, a number that is no number, a finally."""
import contextlib
import torch

STATE = []

@contextlib.contextmanager
def noted(name):
    STATE.append(name)
    try:
        yield
    finally:
        print("done", name)
        STATE.append(f"{name} done")

# fuselight: tried(f32[6])
@torch.compile
def tried(x):
    try:
        y = x.view(2, -1)
    except RuntimeError:
        y = x.reshape(1, -1)
    finally:
        print("tried")
    return y * 2

# fuselight: inside(f32[6])
@torch.compile
def inside(x):
    with noted("a"):
        y = x * 2
        print("inside", y.shape[0])
    return y

# fuselight: caught(f32[6])
@torch.compile
def caught(x):
    try:
        n = int(x.sum())
    except (ValueError, OverflowError):
        n = -1
    return x * n

def probe_tried():
    """size an odd size"""
    return tried(torch.ones(6)), tried(torch.ones(5))

def probe_inside():
    """state"""
    STATE.clear()
    return inside(torch.ones(2)), list(STATE)

def probe_inside_error():
    """state after an error"""
    STATE.clear()
    try:
        inside(None)
    except TypeError:
        return list(STATE)

def probe_caught():
    """nonfinite is caught"""
    return [caught(torch.tensor([float(v)])) for v in ("nan", "inf", "2.7", "-2.7")]
