"""A tagger has an LSTM between two other layers."""
import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, dim=16, hidden=24, tags=5):
        super().__init__()
        self.proj = nn.Sequential(nn.Linear(dim, dim), nn.GELU())
        self.lstm = nn.LSTM(dim, hidden, num_layers=2, batch_first=True)
        self.norm = nn.LayerNorm(hidden)
        self.out = nn.Linear(hidden, tags)

    def forward(self, x, state=None):
    # info: [FL101] "the rest of `Tagger.forward`, from line 17 on, is not compiled: torch cannot resume it after a graph break"
        h = self.proj(x)
        h, state = self.lstm(h, state)  # warning: [GB0014] "graph break: RNN, GRU and LSTM modules are not traced"
        return self.out(self.norm(h)).log_softmax(dim=-1), state


if __name__ == "__main__":
    torch.manual_seed(0)
    model = torch.compile(Tagger().eval(), backend="eager")
    state = None
    with torch.no_grad():
        for _ in range(3):
            scores, state = model(torch.randn(2, 7, 16), state)
    print(scores.shape)
# run by: make corpora
