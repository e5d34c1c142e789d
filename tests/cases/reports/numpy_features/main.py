# pytorch/pytorch#109604: NumPy in compiled code, with a print between two parts
import numpy as np
import torch
from torch import nn


def normalize(features):
    centered = features - features.mean(axis=0)
    # hint: [FL201] "recompiled: features.size(0) was 8, now 12"
    print("samples", len(features))  # warning: [GB0059] "graph break: `print` cannot be traced"
    return centered / (centered.std(axis=0) + 1e-6)


class Classifier(nn.Module):
    def __init__(self, features=6, classes=3):
        super().__init__()
        self.linear = nn.Linear(features, classes)

    @torch.compile
    def predict(self, features):
        x = normalize(features)  # warning: [FL201] "recompiled: features.size(0) was 8, now 12"
        logits = self.linear(torch.from_numpy(x))
        return np.argmax(logits.detach().numpy(), axis=1)


if __name__ == "__main__":
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    model = Classifier()
    for samples in (8, 12, 20):
        labels = model.predict(rng.standard_normal((samples, 6), dtype=np.float32))
        print(labels[:4])
# run by: make corpora
