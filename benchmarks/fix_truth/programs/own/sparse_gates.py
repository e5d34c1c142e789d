"""Returns a sparse tensor, with zeros that are stored."""
import torch


# fuselight: f(f32[4])
def f(x):
    print("gates", x.sum())
    gates = x.to_sparse()
    return gates * 0 if x.numel() > 3 else gates


def probe_stored():
    """output: what is stored."""
    gates = f(torch.tensor([0.0, 1.0, 2.0, 0.0])).coalesce()
    return gates.indices(), gates.values(), str(gates.layout)
