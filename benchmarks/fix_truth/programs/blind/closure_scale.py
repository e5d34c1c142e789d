"""Functions made in functions: numbers of closures and defaults vary."""
import torch

def make(scale, offset=[0.0]):
    def run(x, power=scale):
        nonlocal scale
        scale = scale + 0.5
        offset[0] += 1
        return x * scale + power + offset[0]
    return run

RUN = make(1.0)

# fuselight: outer(f32[3])
# fuselight: outer(f32[3])
# fuselight: outer(f32[3])
@torch.compile
def outer(x):
    return RUN(x)

def factory(levels):
    return [lambda x, level=level: x * level for level in levels]

CALLS = factory([0.5, 1.5, 2.5])

# fuselight: chosen(f32[3], 0)
# fuselight: chosen(f32[3], 1)
# fuselight: chosen(f32[3], 2)
@torch.compile
def chosen(x, index):
    return CALLS[index](x) + index

def probe_outer():
    """state of the closure"""
    return [outer(torch.ones(1)) for _ in range(3)]

def probe_made():
    """state two closures"""
    a, b = make(1.0), make(2.0)
    return a(torch.ones(1)), b(torch.ones(1)), a(torch.ones(1))

def probe_chosen():
    """option"""
    return [chosen(torch.ones(1), i) for i in (0, 1, 2, -1)]

def probe_chosen_bool():
    """option a bool"""
    return chosen(torch.ones(1), True)

def probe_chosen_missing():
    """option beyond"""
    try:
        return chosen(torch.ones(1), 7)
    except IndexError as e:
        return type(e).__name__
