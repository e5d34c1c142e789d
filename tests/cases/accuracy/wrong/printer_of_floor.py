# truth: the C++ that is printed for floor truncates: negative values round up
# stage: code
# seen: result 0: eager -4.5, compiled -3.5
import torch
from torch._inductor import config
from torch._inductor.codegen import cpp


def cell(x):
    scaled = x * 4.0
    return torch.floor(scaled) + 0.5  # <-


def main():
    config.fx_graph_cache = False
    for printer in (cpp.CppOverrides, cpp.CppVecOverrides):
        printer.floor = staticmethod(printer.trunc)
    return torch.compile(cell)(torch.linspace(-1.1, 1.1, 16))


if __name__ == "__main__":
    print(main())
