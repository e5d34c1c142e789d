"""A power of a number, which exceeds 64 bits, and its remainder."""
import torch

# fuselight: hashed(f32[4], torch.tensor(3))
@torch.compile
def hashed(x, key):
    number = key.item()
    return x + number**9 % 1009

def _of(number):
    return hashed(torch.zeros(2, dtype=torch.float64), torch.tensor(number))

def probe_small():
    """output"""
    return _of(5)

def probe_zero():
    """output zero"""
    return [_of(0), _of(1)]

def probe_negative():
    """output a negative number has a positive remainder"""
    return _of(-3)

def probe_limit():
    """output the largest power that fits"""
    return _of(127)

def probe_large():
    """extreme the power exceeds 64 bits"""
    return _of(200)

def probe_larger():
    """extreme far beyond"""
    return [_of(123456789), _of(-1000003)]

def probe_two():
    """state two numbers in turn"""
    return [_of(7), _of(150), _of(7)]

def probe_float():
    """dtype a float"""
    return hashed(torch.zeros(1), torch.tensor(2.5))

def probe_bool():
    """dtype a bool"""
    return hashed(torch.zeros(1), torch.tensor(True))
