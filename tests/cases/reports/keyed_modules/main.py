"""Many small modules, each compiled, whose forward reads a string attribute."""
import torch
from torch import nn


class Field(nn.Module):
    def __init__(self, key, dim=8):
        super().__init__()
        self.key = key
        self.proj = nn.Linear(dim, dim)

    def forward(self, batch):
    # warning: [FL102] "`Field.forward` is no longer compiled: it reached the recompile limit"
        return self.proj(batch[self.key])  # warning: [FL201] "recompiled: self.key was 'age', now 'income'"


KEYS = ["age", "income", "city", "device", "clicks", "hour", "weekday", "price", "brand", "color"]

if __name__ == "__main__":
    batch = {key: torch.randn(4, 8) for key in KEYS}
    fields = [torch.compile(Field(key)) for key in KEYS]
    out = torch.cat([field(batch) for field in fields], dim=1)
    print(out.shape)
# run by: make corpora
