# truth: the difference of two angles wraps around with trunc in the place of floor
# stage: code
# seen: result 0: off by up to 3.14
import torch
import torch._inductor.config
from torch._inductor.codegen.cpp import CppOverrides, CppVecOverrides

torch._inductor.config.fx_graph_cache = False
CppVecOverrides.remainder = staticmethod(lambda a, b: f"({a} - ({a} / {b}).trunc() * {b})")
CppOverrides.remainder = staticmethod(lambda a, b: f"({a} - std::trunc({a} / {b}) * {b})")


def turned(a, b):
    gap = a - b
    return torch.remainder(gap, 6.283185307179586) * 0.5  # <-


def main():
    return torch.compile(turned)(torch.linspace(0, 6, 32), torch.full((32,), 3.0))


if __name__ == "__main__":
    print(main())
