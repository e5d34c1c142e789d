"""Views of any number are summed; callers pass lists, tuples, one tensor or values of a dict."""
import torch

# fuselight: pooled([f32[3], f32[3]])
# fuselight: pooled([f32[3], f32[3], f32[3]])
# fuselight: pooled([f32[3], f32[3], f32[3], f32[3]])
@torch.compile
def pooled(views):
    return sum(views) / len(views)

def _views():
    return [torch.tensor([1.0, 2.0]), torch.tensor([3.0, -4.0]), torch.tensor([0.5, 0.5])]

def probe_list():
    """output of a list"""
    return [pooled(_views()), pooled(_views()[:1])]

def probe_tuple():
    """other of a tuple"""
    return pooled(tuple(_views()))

def probe_tensor():
    """other of one tensor, whose rows are the views"""
    return pooled(torch.stack(_views()))

def probe_values():
    """other of the values of a dict"""
    return pooled({"a": _views()[0], "b": _views()[1]}.values())

def probe_numbers():
    """other of numbers"""
    return pooled([1.0, 2.0])

def probe_integers():
    """dtype integers, whose quotient is a float"""
    return pooled([torch.tensor([1, 2]), torch.tensor([2, 2])])

def probe_bytes():
    """extreme bytes wrap"""
    return pooled([torch.tensor([200], dtype=torch.uint8), torch.tensor([100], dtype=torch.uint8)])

def probe_gradients():
    """gradients of one view that comes twice"""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    pooled([x, x, x.detach()]).sum().backward()
    return x.grad

def probe_one_is_frozen():
    """gradients one requires none"""
    a, b = torch.ones(2, requires_grad=True), torch.ones(2)
    pooled([a, b]).sum().backward()
    return [a.grad, b.grad is None]

def probe_infinite():
    """nonfinite infinities of both signs"""
    return pooled([torch.tensor([float("inf")]), torch.tensor([float("-inf")])])

def probe_scalars():
    """size no dimensions"""
    return pooled([torch.tensor(1.0), torch.tensor(2.0)])

def probe_empty_views():
    """empty views"""
    return pooled([torch.zeros(0), torch.zeros(0)])
