"""A speech model is sampled with other temperatures and other values of top_k."""
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, vocab=32, dim=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, token):
        return self.head(self.embed(token))  # warning: [FL201] "recompiled: token was a normal tensor, now an inference"


def sample(logits, temperature, top_k):
    logits = logits / temperature
    values, _ = torch.topk(logits, top_k)  # warning: [FL201] "recompiled: top_k was 8, now 16"
    logits = torch.where(logits < values[..., -1:], -float("inf"), logits)
    noise = torch.empty_like(logits).exponential_(1)
    return (logits.softmax(dim=-1) / noise).argmax(dim=-1)


@torch.compile(backend="eager")
def generate_next(model, token, temperature, top_k):
    return sample(model(token), temperature, top_k)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Decoder().eval()
    token = torch.zeros(2, dtype=torch.long)
    with torch.inference_mode():
        for temperature, top_k in [(1.0, 8), (0.8, 8), (0.7, 16), (0.6, 20), (0.5, 24)]:
            token = generate_next(model, token, temperature, top_k)
# run by: make corpora
