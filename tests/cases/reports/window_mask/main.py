"""A compiled flex_attention gets a sliding window mask for each sequence length."""
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

attention = torch.compile(flex_attention, backend="eager")


def sliding_window(size):
    def mask(b, h, q, kv):
        return (q - kv).abs() <= size

    return mask


def run(length, size):
    q, k, v = (torch.randn(1, 2, length, 16) for _ in range(3))
    block_mask = create_block_mask(sliding_window(size), None, None, length, length, device="cpu")
    return attention(q, k, v, block_mask=block_mask)  # warning: [FL201] "recompiled: key.size(2) was 128, now 256"


if __name__ == "__main__":
    torch.manual_seed(0)
    with torch.no_grad():
        for length in (128, 256, 384, 640):
            print(run(length, 64).shape)
# run by: make corpora
