"""What a mask selects meets weights by broadcasting, and one selected element is a special case."""
import torch

# fuselight: weighted(f32[6], torch.tensor([True, False, True, True, False, False]))
@torch.compile
def weighted(x, mask):
    kept = x[mask]
    return kept.unsqueeze(0) * 2 + kept.mean(), kept.squeeze()

def _of(mask, values=(1.0, 2.0, 3.0, 4.0)):
    return weighted(torch.tensor(values), torch.tensor(mask))

def probe_usual():
    """output"""
    return _of([True, True, False, True])

def probe_one():
    """size one element is squeezed"""
    return _of([False, True, False, False])

def probe_none():
    """size no element"""
    return _of([False, False, False, False])

def probe_all():
    """size all elements"""
    return _of([True] * 4)

def probe_single_element():
    """size an input of one element"""
    return weighted(torch.tensor([3.0]), torch.tensor([True]))

def probe_turns():
    """state several masks in turn"""
    return [_of([True, False, False, False]), _of([True, True, True, False]), _of([False] * 4)]

def probe_gradients():
    """gradients"""
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    weighted(x, torch.tensor([True, False, False]))[0].sum().backward()
    return x.grad

def probe_rows():
    """size a matrix of rows"""
    return weighted(torch.arange(6.0).reshape(3, 2), torch.tensor([False, True, False]))

def probe_wrong():
    """other a mask of another length raises"""
    try:
        return weighted(torch.ones(3), torch.tensor([True, False]))
    except Exception:
        return "Error"
