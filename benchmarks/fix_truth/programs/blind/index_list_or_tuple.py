"""A list selects rows, a tuple selects an element."""
import torch

# fuselight: picked(f32[4, 4], [0, 1])
# fuselight: picked(f32[4, 4], (0, 1))
@torch.compile
def picked(x, index):
    return x[index] * 2

# fuselight: resized(f32[2, 6], [3, 4])
# fuselight: resized(f32[2, 6], (3, 4))
@torch.compile
def resized(x, size):
    return x.reshape(size) + len(size)

def _matrix():
    return torch.arange(9.0).reshape(3, 3)

def probe_list():
    """output rows"""
    return picked(_matrix(), [0, 1])

def probe_tuple():
    """output an element"""
    return picked(_matrix(), (0, 1))

def probe_turns():
    """state in turns"""
    return [picked(_matrix(), (2, 2)), picked(_matrix(), [2, 2]), picked(_matrix(), (1, 0))]

def probe_tensor():
    """other a tensor of indices"""
    return picked(_matrix(), torch.tensor([2, 0]))

def probe_resized():
    """output sizes"""
    x = torch.arange(12.0)
    return [resized(x, (4, 3)), resized(x, [2, 6]), resized(x, torch.Size([12]))]

def probe_negative():
    """output a size that is computed"""
    return resized(torch.arange(6.0), (-1, 2))

def probe_wrong():
    """other a size that does not fit raises"""
    try:
        return resized(torch.arange(6.0), [4, 4])
    except RuntimeError:
        return "Error"
