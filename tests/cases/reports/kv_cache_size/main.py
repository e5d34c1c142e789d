# meta-pytorch/torchtune#1663: an integer of the key-value cache changes with each token
import torch
from torch import nn


class KVCache(nn.Module):
    def __init__(self, max_length, dim):
        super().__init__()
        self.register_buffer("keys", torch.zeros(max_length, dim), persistent=False)
        self.size = 0

    def update(self, key):
        length = key.size(0)
        self.keys[self.size : self.size + length] = key
        # warning: [FL201] "recompiled: self.kv_cache.size was 0, now 5"
        self.size += length
        return self.keys


class Attention(nn.Module):
    def __init__(self, dim=16, max_length=32):
        super().__init__()
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.kv_cache = KVCache(max_length, dim)

    def forward(self, x):
        keys = self.kv_cache.update(self.key(x))
        scores = self.query(x) @ keys.T
        return scores.softmax(-1) @ keys


@torch.no_grad()
def generate(model, prompt, tokens=4):
    out = model(prompt)[-1:]
    for _ in range(tokens):
        out = model(out)
    return out


if __name__ == "__main__":
    torch.manual_seed(0)
    attention = torch.compile(Attention())
    print(generate(attention, torch.randn(5, 16)).sum().item())
# run by: make corpora
