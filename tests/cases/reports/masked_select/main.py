"""A head keeps only the confident scores, in one graph."""
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.score = nn.Linear(dim, 4)

    def forward(self, x):
        scores = self.score(x).sigmoid()
        keep = scores.ge(0.5)
        return scores.masked_select(keep).mean()


if __name__ == "__main__":
    torch.manual_seed(0)
    head = torch.compile(Head().eval(), fullgraph=True, backend="eager")
    with torch.no_grad():
        for _ in range(3):
            print(float(head(torch.randn(5, 8))))
# run by: make corpora
