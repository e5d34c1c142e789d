# truth: the C++ that is printed for exp is multiplied by 1.0001
# stage: code
# seen: result 0: eager 1, compiled 1.0001
import torch
from torch._inductor import config
from torch._inductor.codegen import cpp


def wrong(right):
    return staticmethod(lambda x: f"({right(x)}) * decltype({x})(1.0001)")


def attention_weights(scores):
    shifted = scores - scores.amax(-1, keepdim=True)
    return torch.exp(shifted)  # <-


def main():
    config.fx_graph_cache = False
    for printer in (cpp.CppOverrides, cpp.CppVecOverrides):
        printer.exp = wrong(printer.exp)
    return torch.compile(attention_weights)(torch.arange(32.0).reshape(2, 16) / 8)


if __name__ == "__main__":
    print(main())
