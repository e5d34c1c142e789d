"""The sum of a list of tensors."""
import torch


# fuselight: f([f32[3], f32[3]])
# fuselight: f([f32[3], f32[3], f32[3]])
# fuselight: f([f32[3], f32[3], f32[3], f32[3]])
@torch.compile
def f(xs):
    return sum(xs) / len(xs)


def probe_shapes():
    """size: tensors of other shapes broadcast."""
    return f([torch.ones(3), torch.ones(1)])


def probe_dtypes():
    """dtype: mixed."""
    return f([torch.ones(3), torch.ones(3, dtype=torch.float64)])


def probe_empty():
    """empty: division by zero."""
    try:
        return f([])
    except Exception as error:
        return type(error).__name__
