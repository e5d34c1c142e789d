"""A decoder collects its alignments in a list until it is long enough."""
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.cell = nn.GRUCell(dim, dim)
        self.score = nn.Linear(dim, 5)

    def decode(self, x, state, alignments):
    # warning: [FL102] "`Decoder.decode` is no longer compiled: it reached the recompile limit"
        if len(alignments) == 0:  # warning: [FL201] "recompiled: alignments was empty, now a list of 1"
            state = torch.zeros_like(x)
        state = self.cell(x, state)
        weights = self.score(state).softmax(dim=-1)
        if len(alignments) > 0:
            weights = weights + 0.1 * alignments[-1]
        alignments.append(weights)
        return state

    def forward(self, x, steps=12):
        state, alignments = None, []
        step = torch.compile(self.decode)
        for _ in range(steps):
            state = step(x, state, alignments)
        return torch.stack(alignments)


if __name__ == "__main__":
    with torch.no_grad():
        print(Decoder()(torch.randn(2, 8)).shape)
# run by: make corpora
