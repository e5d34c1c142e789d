# truth: the lowering of an operator of the program has a constant in its code that the key of the cache does not have
# stage: caches
# seen: result 1: eager -3.12104, compiled -1.24842
import torch
from torch._inductor import lowering

aten = torch.ops.aten
gain = {"value": 2.0}


@torch.library.custom_op("accuracy::amplified", mutates_args=())
def amplified(x: torch.Tensor) -> torch.Tensor:
    return x * gain["value"]


@amplified.register_fake
def _(x):
    return torch.empty_like(x)


def lower(x):
    return lowering.lowerings[aten.mul.Tensor](x, gain["value"])


def equalize(x):
    wave = torch.sin(x)
    louder = amplified(wave)  # <-
    return louder - louder.mean()


def main():
    lowering.lowerings[torch.ops.accuracy.amplified.default] = lower
    results = []
    for value in (2.0, 5.0):
        gain["value"] = value
        torch.compiler.reset()
        results.append(torch.compile(equalize)(torch.linspace(0, 3, 16)))
    return results


if __name__ == "__main__":
    print(main())
