"""An image classifier whose forward pass looks at its data, and a compiled function called with plain numbers.

Fuselight shows a graph break on the `if` in `forward`, and two recompilations of `brighten`: one for the second
number, one for the image of another type.
"""

import torch
import torch.nn.functional as F
from torch import nn


# fuselight: Classifier()(f32[8, 3, 32, 32])
class Classifier(nn.Module):
    """Images (batch, 3, 32, 32) to logits (batch, classes)."""

    def __init__(self, classes=10):
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.second = nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.classify = nn.Linear(32, classes)

    def forward(self, images):
        x = F.relu(self.norm(self.first(images)))
        if x.mean() > 1:  # the compiler cannot know the value: torch.where could choose instead
            x = x / x.mean()
        x = F.relu(self.second(x))
        return self.classify(x.mean(dim=(2, 3)))


# fuselight: brighten(f32[3, 32, 32], 2)
# fuselight: brighten(f32[3, 32, 32], 3)
# fuselight: brighten(f16[3, 32, 32], 3)
@torch.compile
def brighten(image, steps):
    """Brighten by `steps` stops, at most to white."""
    return (image * 2**steps).clamp(max=1.0)


if __name__ == "__main__":
    model = torch.compile(Classifier())
    print(tuple(model(torch.rand(8, 3, 32, 32)).shape))
    print(brighten(torch.rand(3, 32, 32), 2).max().item())
