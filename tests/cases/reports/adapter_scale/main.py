# huggingface/diffusers#9279, #11408: another LoRA adapter is loaded into a compiled block
import torch
from torch import nn


class LoraLinear(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.lora_a, self.lora_b = nn.ModuleDict(), nn.ModuleDict()
        self.scaling = {}
        self.active = []

    def add_adapter(self, name, rank, alpha):
        self.lora_a[name] = nn.Linear(self.base.in_features, rank, bias=False)
        self.lora_b[name] = nn.Linear(rank, self.base.out_features, bias=False)
        self.scaling[name] = alpha / rank

    def forward(self, x):
        out = self.base(x)
        for name in self.active:
            out = out + self.lora_b[name](self.lora_a[name](x)) * self.scaling[name]
            # warning: [FL201] "recompiled: self.proj.active[0] was 'toy', now 'pixel'"
            # warning: [FL201] "recompiled: self.proj.scaling['anime'] was 0.5, now 0.25"
        return out


class Block(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.proj = LoraLinear(nn.Linear(dim, dim))

    def forward(self, x):
        return x + self.proj(self.norm(x))


if __name__ == "__main__":
    torch.manual_seed(0)
    block = Block()
    compiled = torch.compile(block)
    x = torch.randn(4, 16)
    with torch.no_grad():
        for name, rank, alpha in (("toy", 4, 4), ("pixel", 8, 16), ("anime", 8, 4)):
            block.proj.add_adapter(name, rank, alpha)
            block.proj.active = [name]
            print(name, compiled(x).sum().item())
        block.proj.scaling["anime"] *= 0.5
        print("weaker", compiled(x).sum().item())
# run by: make corpora
