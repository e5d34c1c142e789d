"""A progress bar asks an iterator how much is left."""
import torch


class Progress:
    def __init__(self, steps):
        self.steps = steps
        self.seen = 0

    def left(self):
        items = iter(self.steps)
        next(items)
        return items.__length_hint__() - self.seen


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.progress = Progress([1, 2, 3])

    def forward(self, x):
        y = self.layer(x).relu()
        weight = 1.0 / (1 + self.progress.left())
        return y * weight + x


if __name__ == "__main__":
    torch.compile(Net())(torch.randn(2, 4))
