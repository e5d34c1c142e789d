# kijai/ComfyUI-MochiWrapper#44: the longest prompt of a packed batch is an int in a dict
import torch
from torch import nn


class AsymmetricBlock(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.visual = nn.Linear(dim, dim)
        self.text = nn.Linear(dim, dim)

    def forward(self, visual, text, packed_indices):
        longest = packed_indices["max_seqlen_in_batch_kv"]
        valid = packed_indices["valid_token_indices_kv"]
        joint = torch.cat([self.visual(visual), self.text(text)])[valid]
        scale = 1.0 / longest**0.5
        return visual + (joint * scale).sum(0)


class Model(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.blocks = nn.ModuleList(AsymmetricBlock() for _ in range(depth))
        for block in self.blocks:
            block.compile(dynamic=False)
            # warning: [FL201] "recompiled: packed_indices['valid_token_indices_kv'].size(0) was 15, now 17"

    def forward(self, visual, text, mask):
        valid = torch.nonzero(mask).flatten()
        packed = {"valid_token_indices_kv": valid, "max_seqlen_in_batch_kv": int(mask.sum())}
        for block in self.blocks:
            visual = block(visual, text, packed)
        return visual


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Model()
    visual, text = torch.randn(12, 16), torch.randn(8, 16)
    with torch.no_grad():
        for words in (3, 5, 2, 7, 4, 8, 6, 1, 3, 5):
            mask = torch.arange(20) < 12 + words
            out = model(visual, text, mask)
    print(out.mean().item())
# run by: make corpora
