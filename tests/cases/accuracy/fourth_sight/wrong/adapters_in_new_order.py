# truth: the order of an OrderedDict is not guarded: adapters that are moved to the end are still applied in the old order
# stage: capture
# seen: result 1: eager 1.5, compiled 4
import collections

import torch


class Adapters(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = collections.OrderedDict(small=torch.full((4,), 0.5), large=torch.full((4,), 3.0))

    def forward(self, x):
        for name in self.scales:  # <-
            x = x * self.scales[name] + 1
        return x


def main():
    module = Adapters()
    compiled = torch.compile(module)
    x = torch.arange(4.0)
    first = compiled(x)
    module.scales.move_to_end("small")
    return first, compiled(x)


if __name__ == "__main__":
    print(main())
