"""A block gets three more keyword arguments if the packed sequence needs padding."""
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.time = nn.Linear(1, dim)

    def forward(self, x, timestep, attention_kwargs):
        q, k, v = self.qkv(x + self.time(timestep)[:, None]).chunk(3, dim=-1)
        # info: [FL201] "recompiled: timestep.size(0) was 1, now 2"
        mask = attention_kwargs.get("mask")
        # warning: [FL201] "recompiled: 'mask' was not in attention_kwargs, now it is"
        if mask is not None:
            v = v * mask[..., None]
        return nn.functional.scaled_dot_product_attention(q, k, v) * attention_kwargs["scale"]


def denoise(block, x, timestep, kwargs, padded):
    if padded:
        kwargs.update(mask=torch.ones(x.shape[:2]), length=x.size(1))
    else:
        kwargs.pop("mask", None)
        kwargs.pop("length", None)
    return block(x, timestep, kwargs)


if __name__ == "__main__":
    block = torch.compile(Block().eval(), backend="eager")
    kwargs = {"scale": 0.5}
    with torch.no_grad():
        for batch, padded in [(1, False), (2, False), (1, True), (2, True), (1, False)]:
            denoise(block, torch.randn(2, 6, 16), torch.rand(batch, 1), kwargs, padded)
# run by: make corpora
