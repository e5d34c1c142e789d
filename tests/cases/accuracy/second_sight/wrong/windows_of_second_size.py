# truth: the lowering of unfold takes the step of the first compile: windows of another size start at wrong places
# stage: code
# seen: result 1: eager 0.962411, compiled 0
import torch
from torch._inductor import config, lowering

aten = torch.ops.aten
right = lowering.lowerings[aten.unfold.default]
first_step = []


def wrong(x, dimension, size, step):
    first_step.append(step)
    return right(x, dimension, size, first_step[0])


def peaks(signal, step):
    rectified = torch.relu(signal)
    windows = rectified.unfold(-1, 4, step)  # <-
    return windows.amax(-1)


def main():
    config.fx_graph_cache = False
    lowering.lowerings[aten.unfold.default] = wrong
    compiled = torch.compile(peaks, dynamic=False)
    signal = torch.linspace(0, 12, 32).sin()
    count = (len(signal) - 4) // 4 + 1
    return compiled(signal, 4), compiled(signal, 3)[:count]


if __name__ == "__main__":
    print(main())
