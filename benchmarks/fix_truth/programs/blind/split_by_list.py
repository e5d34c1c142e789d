"""Lengths in a tensor split another one; their sum may not fit."""
import torch

# fuselight: parts(f32[6], i64[3] % 1 + 2)
@torch.compile
def parts(x, lengths):
    out = []
    for part in x.split(lengths.tolist()):
        out.append(part.sum() + part.shape[0])
    return torch.stack(out)

# fuselight: padded(f32[2, 6], i64[2] % 3 + 2)
@torch.compile
def padded(x, lengths):
    y = x[:, : lengths.max()]
    keep = torch.arange(int(lengths.max())) < lengths[:, None]
    return y * keep

def probe_parts():
    """output"""
    return parts(torch.arange(6.0), torch.tensor([2, 2, 2])), parts(torch.arange(6.0), torch.tensor([0, 5, 1]))

def probe_parts_wrong():
    """size does not fit"""
    for lengths in ([1, 2, 2], [-1, 4, 3], [7, 0, 0]):
        try:
            parts(torch.arange(6.0), torch.tensor(lengths))
            return "works"
        except Exception:
            pass
    return "fails"

def probe_parts_one():
    """size another count of parts"""
    return parts(torch.arange(6.0), torch.tensor([6])), parts(torch.arange(2.0), torch.tensor([1, 1]))

def probe_padded():
    """output"""
    x = torch.arange(12.0).reshape(2, 6)
    return [padded(x, torch.tensor(v)) for v in ([1, 3], [0, 1], [6, 2], [1, 1])]

def probe_padded_zero():
    """values all are zero"""
    return padded(torch.ones(2, 6), torch.tensor([0, 0]))

def probe_padded_longer():
    """size longer than the rows"""
    try:
        return padded(torch.ones(2, 6), torch.tensor([9, 1]))
    except Exception:
        return "fails"

def probe_padded_negative():
    """values negative lengths"""
    try:
        return padded(torch.ones(2, 6), torch.tensor([-2, -1]))
    except Exception:
        return "fails"
