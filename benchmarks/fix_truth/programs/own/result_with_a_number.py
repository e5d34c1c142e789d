"""A dataclass of a tensor and a number taken from it."""
import dataclasses
import json
import torch


@dataclasses.dataclass
class Result:
    scaled: torch.Tensor
    top: float = 0.0


# fuselight: f(f32[4])
def f(x):
    result = Result(x + 1)
    top = x.max().item()
    result.scaled = x * top
    result.top = top
    return result


def probe_json():
    """output: the number can be written."""
    return json.dumps(f(torch.ones(2)).top)


def probe_types():
    """output: types and values."""
    return f(torch.tensor([1.0, 3.0]))
