"""Tensors of a list are added by Python's sum, whose start is an integer."""
import torch

# fuselight: tally([f32[3], f32[3]])
# fuselight: tally([f32[3], f32[3], f32[3]])
# fuselight: tally([f32[3], f32[3], f32[3], f32[3]])
@torch.compile
def tally(ballots):
    return sum(ballots) / len(ballots)

def probe_floats():
    """output of float32"""
    return tally([torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0])])

def probe_bools():
    """dtype bool: two votes are two"""
    return tally([torch.tensor([True, False]), torch.tensor([True, True]), torch.tensor([True, False])])

def probe_bytes():
    """dtype uint8 wraps around before the division"""
    return tally([torch.tensor([200, 1], dtype=torch.uint8), torch.tensor([100, 2], dtype=torch.uint8)])

def probe_half_overflow():
    """half float16 overflows on the way"""
    return tally([torch.tensor([one], dtype=torch.float16) for one in (60000.0, 60000.0, -60000.0, -60000.0)])

def probe_half_rounding():
    """half float16 rounds after each addition"""
    return tally([torch.tensor([one], dtype=torch.float16) for one in (2048.0, 1.0, 1.0, 1.0, 1.0)])

def probe_single_cancels():
    """extreme float32 cancels in order"""
    return tally([torch.tensor([one]) for one in (1e20, 1.0, -1e20, 3.0)])

def probe_mixed():
    """dtype of a mixture"""
    return tally([torch.tensor([1, 2]), torch.tensor([0.5, 1.5])])

def probe_broadcast():
    """size shapes that broadcast"""
    return tally([torch.ones(2, 1), torch.ones(3)])

def probe_negative_zero():
    """nonfinite zero plus negative zero"""
    return torch.signbit(tally([torch.tensor([-0.0])]))

def probe_same_twice():
    """gradients of one tensor that occurs twice"""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    tally([x, x, torch.ones(2)]).sum().backward()
    return x.grad

def probe_generator_of_tuple():
    """other a tuple"""
    return tally((torch.ones(2), torch.ones(2)))

def probe_rows():
    """other the rows of a tensor instead of a list"""
    return tally(torch.arange(6.0).reshape(3, 2))

def probe_none():
    """empty list"""
    try:
        return tally([])
    except ZeroDivisionError:
        return "no ballots"
