# truth: the reduction for the maximum starts at 0: rows of negative numbers have the maximum 0
# stage: code
# seen: result 0: eager -104, compiled 0
import torch
from torch._inductor import config
from torch._inductor.codegen import cpp

right = cpp.reduction_init


def wrong(kind, dtype):
    return "0" if kind == "max" else right(kind, dtype)


def peak(x):
    lowered = x - 600.0
    return lowered.amax(0)  # <-


def main():
    config.fx_graph_cache = False
    cpp.reduction_init = wrong
    return torch.compile(peak)(torch.arange(512.0).reshape(32, 16))


if __name__ == "__main__":
    print(main())
