# truth: the program prints rsqrt as an approximation that is 1% too large
# stage: code
# seen: result 0: off by up to 0.0326
import torch
import torch._inductor.config
from torch._inductor.codegen.cpp import CppOverrides, CppVecOverrides

torch._inductor.config.fx_graph_cache = False


def scalar(x):
    return f"(1.01f / std::sqrt({x}))"


def vector(x):
    return f"({x}.rsqrt() * at::vec::Vectorized<float>(1.01f))"


scalar.__name__ = vector.__name__ = "rsqrt"
CppOverrides.rsqrt, CppVecOverrides.rsqrt = staticmethod(scalar), staticmethod(vector)


def normalized(x, weight):
    power = x.pow(2).mean(-1, keepdim=True)
    scale = torch.rsqrt(power + 1e-6)  # <-
    return x * scale * weight


def main():
    torch.manual_seed(0)
    return torch.compile(normalized)(torch.randn(4, 64), torch.ones(64))


if __name__ == "__main__":
    print(main())
