"""the function writes into its dict."""

import torch


# fuselight: merge({"a": f32[3], "b": f32[3]})
# fuselight: merge({"b": f32[3], "a": f32[3]})
@torch.compile
def merge(parts):
    total = sum(parts.values())
    parts["total"] = total
    return total


def probe_dict():
    """state: the dict has a key more."""
    parts = {"a": torch.ones(2), "b": torch.ones(2)}
    merge(parts)
    return list(parts)
