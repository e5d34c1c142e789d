"""A value, not a comparison, decides: each number but zero is true."""
import torch

# fuselight: leftover(f32[4])
@torch.compile
def leftover(x):
    rest = x.sum()
    if rest:
        x = x * 2
    return x

def _keep(x):
    out = leftover(x)
    return [out, out.dtype]

def _is_argument(values):
    x = torch.tensor(values)
    return leftover(x) is x

def probe_nonzero():
    """output of a number above one"""
    return _keep(torch.tensor([1.0, 2.0]))

def probe_half_of_one():
    """output of a fraction, which an integer would lose"""
    return _keep(torch.tensor([0.25, 0.25]))

def probe_negative():
    """output of a negative number"""
    return _keep(torch.tensor([-0.5]))

def probe_zero():
    """output of zero"""
    return _keep(torch.tensor([1.0, -1.0]))

def probe_argument():
    """output: where the sum is zero, the result is the argument itself"""
    numbers = [[1.0, 2.0], [1.0, -1.0], [False, False], [True, False], [2**62] * 4, [1j], []]
    return [_is_argument(one) for one in numbers]

def probe_argument_leaf():
    """output the argument itself is a leaf"""
    return leftover(torch.tensor([1.0, -1.0], requires_grad=True)).is_leaf

def probe_negative_zero():
    """extreme negative zero is false"""
    return torch.signbit(leftover(torch.tensor(-0.0)))

def probe_subnormal():
    """extreme the smallest number is true"""
    return _keep(torch.tensor([1e-45]))

def probe_nan():
    """nonfinite NaN is true"""
    return _keep(torch.tensor([float("nan"), 1.0]))

def probe_cancel():
    """nonfinite infinities"""
    return _keep(torch.tensor([float("inf"), float("-inf"), 3.0]))

def probe_bool():
    """dtype bool becomes int64 only where it is doubled"""
    return [_keep(torch.tensor([False, False])), _keep(torch.tensor([True, False]))]

def probe_wrapped():
    """extreme a sum that wraps to zero is false"""
    return _keep(torch.tensor([2**62, 2**62, 2**62, 2**62]))

def probe_complex():
    """dtype an imaginary number is true"""
    return _keep(torch.tensor([1j]))

def probe_empty():
    """empty input"""
    return _keep(torch.zeros(0, 2))

def probe_changed_later():
    """state the caller changes the result in place"""
    x = torch.tensor([1.0, -1.0])
    leftover(x).add_(1)
    return x

def probe_leaf():
    """gradients of the leaf, which the result may be"""
    x = torch.tensor([1.0, -1.0], requires_grad=True)
    leftover(x).sum().backward()
    return x.grad
