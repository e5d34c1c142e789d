"""Other callers pass Python values through *args, partial, a table and a default of a lambda."""
import functools
import torch

# fuselight: flip(f32[3], bool[])
@torch.compile
def flip(x, backwards):
    if backwards:
        x = x * -1
    return x

# fuselight: lifted(f32[3], f32[])
@torch.compile
def lifted(x, level):
    return x + 1 if level > 0 else x - 1

TABLE = {"flip": flip, "lifted": lifted}

def probe_star():
    """other arguments in a tuple"""
    args = (torch.ones(2), True)
    return flip(*args), flip(*(torch.ones(2), 0))

def probe_partial():
    """other a partial call"""
    up = functools.partial(lifted, level=2)
    return up(torch.zeros(2)), functools.partial(flip, backwards=False)(torch.ones(2))

def probe_table():
    """other from a table"""
    return [TABLE[name](torch.ones(2), value) for name, value in (("flip", 1), ("lifted", -1.5))]

def probe_text():
    """other any object has a truth"""
    return [call(torch.ones(2)) for call in (lambda x, b="yes": flip(x, b), lambda x, b="": flip(x, b))]

def probe_tensors():
    """output"""
    return flip(torch.ones(2), torch.tensor(True)), lifted(torch.ones(2), torch.tensor(0.0))

def probe_number():
    """dtype a number as tensor"""
    return flip(torch.ones(2), torch.tensor(2.0)), flip(torch.ones(2), torch.tensor(0))
