"""Groups by unique, masked_select and one_hot, with counts, an empty group and a single element."""
import torch
import torch.nn.functional as F

# fuselight: grouped(i64[8] % 4)
@torch.compile
def grouped(ids):
    values, inverse, counts = torch.unique(ids, return_inverse=True, return_counts=True)
    return values * counts, counts[inverse], values.shape[0]

# fuselight: chosen(f32[8])
@torch.compile
def chosen(x):
    kept = torch.masked_select(x, x > 0)
    if kept.numel() == 0:
        return x.new_zeros(1)
    return kept / kept.max()

# fuselight: hot(i64[4] % 3)
@torch.compile
def hot(ids):
    table = F.one_hot(ids)
    return table.sum(0), table @ torch.arange(table.shape[-1])

# fuselight: pairs(f32[6])
@torch.compile
def pairs(x):
    rows = x[x > 0].view(-1, 2)
    return rows.sum(1), rows.softmax(0)

def probe_grouped():
    """output"""
    return [grouped(torch.tensor(v)) for v in ([1, 1, 2], [5], [3, 3, 3])]

def probe_grouped_none():
    """empty"""
    return grouped(torch.zeros(0, dtype=torch.int64))

def probe_grouped_matrix():
    """rank a matrix"""
    return grouped(torch.tensor([[1, 2], [2, 1]]))

def probe_chosen():
    """values none, one, several"""
    return [chosen(torch.tensor(v)) for v in ([-1.0, -2.0], [-1.0, 2.0], [1.0, 2.0])]

def probe_hot():
    """values"""
    return hot(torch.tensor([0, 2])), hot(torch.tensor([0, 0])), hot(torch.tensor([4]))

def probe_pairs():
    """values none, two, four"""
    return [pairs(torch.tensor(v)) for v in ([-1.0], [1.0, 2.0, -1.0], [1.0, 2.0, 3.0, 4.0])]

def probe_pairs_odd():
    """size an odd number fails"""
    try:
        return pairs(torch.tensor([1.0, 2.0, 3.0]))
    except Exception:
        return "fails"
