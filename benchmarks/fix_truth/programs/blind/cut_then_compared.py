"""A number is cut, rounded or converted before it decides."""
import torch

# fuselight: whole(f32[4])
@torch.compile
def whole(x):
    if int(x.sum()) > 0:
        x = x * 2
    return x

# fuselight: parity(i64[4])
@torch.compile
def parity(x):
    if x.sum().item() % 2:
        x = -x
    return x

# fuselight: member(i64[4] % 9)
@torch.compile
def member(x):
    if x.max().item() in (3, 5):
        x = x + 1
    return x

# fuselight: near(f32[4], f32[4])
@torch.compile
def near(x, y):
    if torch.allclose(x, y):
        x = x * 0
    return x

def probe_whole():
    """values between zero and one are cut"""
    return [whole(torch.tensor([v])) for v in (0.5, 1.0, -0.5, -3.0)]

def probe_whole_nan():
    """nonfinite NaN fails"""
    out = []
    for v in ("nan", "inf"):
        try:
            out.append(whole(torch.tensor([float(v)])))
        except Exception as e:
            out.append(type(e).__name__)
    return out

def probe_parity():
    """values negative numbers"""
    return [parity(torch.tensor([v, 0])) for v in (3, 2, -3, -2, 0)]

def probe_parity_float():
    """dtype floats"""
    return parity(torch.tensor([0.5])), parity(torch.tensor([2.0]))

def probe_parity_bytes():
    """dtype bytes are added as long"""
    return parity(torch.tensor([100, 101], dtype=torch.int8))

def probe_member():
    """values"""
    return [member(torch.tensor([v])) for v in (3, 4, 5, 8)]

def probe_near():
    """nonfinite"""
    nan = torch.tensor([float("nan")])
    inf = torch.tensor([float("inf")])
    return near(nan, nan), near(inf, inf), near(torch.tensor([1.0]), torch.tensor([1.000001]))
