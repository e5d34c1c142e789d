"""Positions of text and image tokens are computed with .item() and a branch."""
import torch
from torch import nn


class VisionText(nn.Module):
    def __init__(self, image_token=99, merge=2):
        super().__init__()
        self.image_token = image_token
        self.merge = merge
        self.embed = nn.Embedding(128, 16)

    def positions(self, ids, grid):
        out = torch.arange(ids.size(0))
        starts = (ids == self.image_token).nonzero()
        # warning: [GB0036] "graph break: the shape of the result of `nonzero` depends on the tensor's data"
        if starts.numel() > 0:
            first = starts[0].item()  # warning: [GB0124] "graph break: `.item()` converts a tensor to a Python number"
            t, h, w = grid[0].tolist()  # warning: [GB0033] "graph break: a tensor is converted to Python numbers"
            count = t * (h // self.merge) * (w // self.merge)
            out[first : first + count] = first
        return out

    def forward(self, ids, grid):
        return self.embed(ids) + self.positions(ids, grid).unsqueeze(-1)


if __name__ == "__main__":
    model = torch.compile(VisionText())
    ids = torch.tensor([1, 2, 99, 99, 99, 99, 5, 6])
    with torch.no_grad():
        model(ids, torch.tensor([[1, 4, 4]]))
# run by: make corpora
