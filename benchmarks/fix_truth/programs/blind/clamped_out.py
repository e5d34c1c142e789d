"""The argument is limited in place by an operator with `out`, and comes in several layouts."""
import torch

def limit_(rows, top):
    return torch.clamp(rows, max=top, out=rows)

# fuselight: limited(f32[3, 4])
# fuselight: limited(f32[4, 3].t())
# fuselight: limited(f32[3, 8][:, ::2])
@torch.compile
def limited(x):
    return limit_(x, 1.0) * 2

# fuselight: normed(f32[3, 4])
# fuselight: normed(f32[4, 3].t())
# fuselight: normed(f32[3, 8][:, ::2])
@torch.compile
def normed(x):
    return x / (1 + x.abs().sum()), x[0]

def _rows():
    return torch.arange(6.0).reshape(2, 3)

def probe_plain():
    """state contiguous"""
    x = _rows()
    return [limited(x), x]

def probe_transposed():
    """state of a transposed argument and its base"""
    base = _rows()
    return [limited(base.t()), base]

def probe_slice():
    """state of a slice and its base"""
    base = _rows()
    return [limited(base[:, ::2]), base]

def probe_normed():
    """output"""
    return normed(_rows().t())[0]

def probe_row_is_view():
    """state the row that is returned is a view of the argument"""
    base = _rows()
    normed(base.t())[1].fill_(9.0)
    return base

def probe_row_is_view_contiguous():
    """state the same of a contiguous argument"""
    base = _rows()
    normed(base)[1].fill_(9.0)
    return base

def probe_strides():
    """strides of the row"""
    return list(normed(_rows().t())[1].stride())

def probe_expanded():
    """output an expanded argument"""
    return normed(torch.ones(1, 3).expand(2, 3))[0]

def probe_gradients():
    """gradients through a transposed argument"""
    x = _rows().requires_grad_()
    normed(x.t())[0].sum().backward()
    return x.grad
