"""Lists and tuples go to a helper that keeps them, grows them or asks what they are."""
import torch

KEPT = []

def keep(items):
    KEPT.append(items)
    return len(items)

def grow(items):
    if isinstance(items, list):
        items.append(items[0] * 2)
    return items[-1]

# fuselight: stored([f32[2], f32[2]])
# fuselight: stored((f32[2], f32[2]))
@torch.compile
def stored(items):
    return items[0] * keep(items)

# fuselight: grown([f32[2], f32[2]])
# fuselight: grown((f32[2], f32[2]))
@torch.compile
def grown(items):
    return grow(items) + items[1]

# fuselight: passed([f32[2], f32[2]], 1)
# fuselight: passed((f32[2], f32[2]), 1)
@torch.compile
def passed(items, index):
    a, b = items
    return {"items": items, "sum": a + b, "one": items[index:]}

# fuselight: shaped(f32[6], [2, 3])
# fuselight: shaped(f32[6], (2, 3))
@torch.compile
def shaped(x, size):
    return x.reshape(size) * size[0] + size.index(3)

def probe_stored():
    """state what is kept"""
    KEPT.clear()
    items = [torch.ones(2), torch.ones(2)]
    y = stored(items)
    stored(tuple(items))
    return y, KEPT[0] is items, type(KEPT[1]).__name__

def probe_grown():
    """state of the caller's list"""
    items = [torch.ones(2), torch.zeros(2)]
    return grown(items), items, grown(tuple(items))

def probe_passed():
    """output types"""
    return passed([torch.ones(1), torch.ones(1)], 1), passed((torch.ones(1), torch.ones(1)), 0)

def probe_shaped():
    """other sizes"""
    return shaped(torch.ones(6), torch.Size([2, 3])), shaped(torch.ones(6), [3, -1])

def probe_shaped_missing():
    """other a size without a three"""
    out = []
    for size in ([6], (6,)):
        try:
            shaped(torch.ones(6), size)
        except ValueError:
            out.append("fails")
    return out
