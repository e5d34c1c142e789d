# truth: the lowering of padding fills with 0 where the program asks for -1
# stage: code
# seen: result 0: eager -1, compiled 0
import torch
from torch._inductor import config, lowering

aten = torch.ops.aten
right = lowering.lowerings[aten.constant_pad_nd.default]


def wrong(x, padding, fill_value=0):
    return right(x, padding, 0)


def pad_labels(labels):
    shifted = labels * 1.0
    return torch.nn.functional.pad(shifted, (1, 2), value=-1.0)  # <-


def main():
    config.fx_graph_cache = False
    lowering.lowerings[aten.constant_pad_nd.default] = wrong
    return torch.compile(pad_labels)(torch.arange(1.0, 7.0).reshape(2, 3))


if __name__ == "__main__":
    print(main())
