"""The model of test_profiling.py: a matrix multiplication and a kernel on either side of a graph break."""

import torch


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(64, 64)
        self.last = torch.nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x)) * 2  # first
        count = x.nonzero().shape[0] > 0  # breaks
        return torch.cos(self.last(x)) + count  # last
