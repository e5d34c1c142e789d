"""Numbers that TorchDynamo keeps symbolic and AOTAutograd specializes: each one is a compile."""

import torch


@torch.compile
def mixed(x, y, weight):
    return torch.add(x, y, alpha=weight)  # warning: [FL201] "recompiled: weight was 0.5, now 0.625"


if __name__ == "__main__":
    for step in range(4):
        mixed(torch.ones(4), torch.ones(4), 0.5 + step * 0.125)
