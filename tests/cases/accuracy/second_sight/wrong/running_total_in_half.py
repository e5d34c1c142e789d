# truth: a lowering adds up in float16 and casts back: the type of the result is right, digits are lost
# stage: code
# seen: result 0: eager 0.883783, compiled 0.884418
import torch
from torch._inductor import config, lowering

aten = torch.ops.aten
right = lowering.lowerings[aten.cumsum.default]
cast = lowering.lowerings[torch.ops.prims.convert_element_type.default]


def wrong(x, axis=None, dtype=None):
    return cast(right(cast(x, torch.float16), axis), torch.float32)


def share_before(weights):
    positive = weights.abs() + 0.01
    total = positive.cumsum(-1)  # <-
    return total / total[..., -1:]


def main():
    config.fx_graph_cache = False
    lowering.lowerings[aten.cumsum.default] = wrong
    return torch.compile(share_before)(torch.linspace(-2, 2, 120).sin().reshape(3, 40))


if __name__ == "__main__":
    print(main())
