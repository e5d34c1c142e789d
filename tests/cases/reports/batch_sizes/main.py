"""A server compiles with dynamic=False and sees one batch size after the other."""
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(64, 16)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 64)

    def forward(self, input_ids):
    # warning: [FL102] "`Model.forward` is no longer compiled: it reached the recompile limit"
        return self.head(self.norm(self.embed(input_ids)))


SIZES = [1, 2, 4, 8, 16, 24, 32, 48, 64, 96]

if __name__ == "__main__":
    model = torch.compile(Model().eval(), dynamic=False)
    # warning: [FL201] "recompiled: input_ids.size(0) was 1, now 2"
    with torch.inference_mode():
        for batch in SIZES:
            model(torch.zeros(batch, 1, dtype=torch.long))
# run by: make corpora
