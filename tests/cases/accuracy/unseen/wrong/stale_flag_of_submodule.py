# truth: the program's guard filter drops the guard on a flag of a submodule; a later call runs the other branch
# stage: capture
# seen: result 1: eager -0.00033535, compiled -0.268941
import torch


class Gate(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.sharp = False

    def forward(self, x):
        if self.sharp:  # <-
            return torch.sigmoid(x * 8.0)
        return torch.sigmoid(x)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = Gate()

    def forward(self, x):
        opened = self.gate(x)
        return x * opened


def main():
    net = Net()
    compiled = torch.compile(net, options={"guard_filter_fn": lambda guards: [False for _ in guards]})
    x = torch.linspace(-1, 1, 8)
    first = compiled(x)
    net.gate.sharp = True
    return first, compiled(x)


if __name__ == "__main__":
    print(main())
