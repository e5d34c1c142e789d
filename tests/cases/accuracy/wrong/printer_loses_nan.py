# truth: the C++ that is printed for maximum drops a NaN on one side
# stage: code
# seen: result 0: eager nan, compiled 6
import torch
from torch._inductor import config
from torch._inductor.codegen import cpp


def wrong_scalar(a, b):
    return f"({a} > {b} ? {a} : {b})"


def wrong_vector(a, b):
    return f"decltype({a})::blendv({b}, {a}, {a} > {b})"


def upper_bound(x, y):
    return torch.maximum(x, y) * 0.5  # <-


def main():
    config.fx_graph_cache = False
    cpp.CppOverrides.maximum = staticmethod(wrong_scalar)
    cpp.CppVecOverrides.maximum = staticmethod(wrong_vector)
    x = torch.arange(16.0)
    y = 15.0 - x
    x[3] = x[12] = float("nan")
    return torch.compile(upper_bound)(x, y)


if __name__ == "__main__":
    print(main())
