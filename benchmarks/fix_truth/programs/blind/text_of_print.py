"""print with formats, braces, numbers and a keyword."""
import torch

# fuselight: show(f32[3], 2)
@torch.compile
def show(x, level):
    total = x.sum()
    print("{level}", level, f"{total:8.3f}|{level:03d}", "100%", total, "{}")
    return x * level

# fuselight: tail(f32[3])
@torch.compile
def tail(x):
    print(x.mean(), "a", sep=";", end="!\n")
    print()
    print("")
    print(x.mean(), None, True, 1.5, 'it\'s "x"\t{0}')
    return x + 1

def probe_show():
    """output of the text"""
    with torch.no_grad():
        return show(torch.tensor([1.0, 2.0]), 3), show(torch.tensor([1.0, 2.0]), 12)

def probe_negative():
    """output negative"""
    with torch.no_grad():
        return show(torch.tensor([-1.0, 0.25]), -3)

def probe_bool_level():
    """option a bool is shown as one"""
    try:
        return show(torch.tensor([1.0]), True)
    except Exception as e:
        return type(e).__name__

def probe_float_level():
    """option a float level has no such format"""
    try:
        return show(torch.tensor([1.0]), 2.0)
    except Exception as e:
        return type(e).__name__

def probe_tail():
    """output with separators"""
    with torch.no_grad():
        return tail(torch.tensor([1.0, 2.0]))

def probe_nan():
    """nonfinite"""
    with torch.no_grad():
        return show(torch.tensor([float("nan"), float("inf")]), 1), tail(torch.tensor([float("inf")]))

def probe_ints():
    """dtype integers have no mean"""
    try:
        return tail(torch.tensor([1, 2]))
    except Exception as e:
        return type(e).__name__
