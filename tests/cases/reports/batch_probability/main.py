"""An augmentation draws once for the batch whether it is applied at all."""
import torch
from torch import nn


class RandomBrightness(nn.Module):
    def __init__(self, p=0.5, p_batch=0.8, strength=0.2):
        super().__init__()
        self.p, self.p_batch, self.strength = p, p_batch, strength

    def batch_mask(self, size):
        batch_prob = torch.rand(1) < self.p_batch
        if batch_prob.sum() == 1:  # warning: [GB0170] "graph break: a branch depends on the data of a tensor"
            return (torch.rand(size) < self.p).float()
        return torch.zeros(size)

    def forward(self, images):
        mask = self.batch_mask(images.size(0)).view(-1, 1, 1, 1)
        factor = 1 + self.strength * mask
        return (images * factor).clamp(0, 1)


if __name__ == "__main__":
    torch.manual_seed(0)
    augment = torch.compile(RandomBrightness(), backend="eager")
    for _ in range(6):
        images = augment(torch.rand(4, 3, 8, 8))
    print(images.shape)
# run by: make corpora
