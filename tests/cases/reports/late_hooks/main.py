import torch
from torch import nn


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.stage1 = nn.Sequential(nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU())
        self.stage2 = nn.Sequential(nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU())

    def forward(self, x):
        return self.stage2(self.stage1(self.stem(x))).mean((2, 3))


def attach(model):
    features = {}

    def keep(name):
        def hook(module, args, output):
            features[name] = output.detach()

        return hook

    for name in ("stage1", "stage2"):
        getattr(model, name).register_forward_hook(keep(name))
        # warning: [FL202] "compiled code of `Backbone.forward` does not run this hook"
    return features


if __name__ == "__main__":
    model = torch.compile(Backbone().eval())
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        model(images)  # warm up
        features = attach(model)
        model(images)
    print("captured:", sorted(features))
