"""A random number of NumPy."""
import numpy as np
import torch


# fuselight: f(f32[4])
@torch.compile
def f(x):
    return x * float(np.random.rand())


def probe_shape():
    """size: one element."""
    return f(torch.ones(1)).shape


def probe_dtype():
    """dtype: half stays half."""
    return f(torch.ones(2, dtype=torch.float16)).dtype == torch.float16


def probe_integers():
    """dtype: integers become float32."""
    return str(f(torch.tensor([1, 2])).dtype)
