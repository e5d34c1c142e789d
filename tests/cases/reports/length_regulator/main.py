# pytorch/pytorch#147160, Lightning-AI/lightning-thunder#173: repeat_interleave with predicted durations
import torch
from torch import nn


class LengthRegulator(nn.Module):
    def __init__(self, dim=16, mel=8):
        super().__init__()
        self.duration = nn.Linear(dim, 1)
        self.decoder = nn.Linear(dim, mel)

    def forward(self, phonemes):
        durations = self.duration(phonemes).squeeze(-1).exp().round().clamp(1, 4).long()
        # warning: [FL201] "recompiled: phonemes.size(0) was 6, now 9"
        frames = torch.repeat_interleave(phonemes, durations, dim=0)
        # warning: [FL201] "recompiled: frames.size(0) was 8, now 14"
        # warning: [GB0036] "graph break: the shape of the result of `repeat_interleave` depends on the tensor's data"
        return self.decoder(frames), durations


if __name__ == "__main__":
    torch.manual_seed(0)
    model = torch.compile(LengthRegulator())
    with torch.no_grad():
        for length in (6, 9, 7):
            mel, durations = model(torch.randn(length, 16))
            print(mel.shape[0] == durations.sum())
# run by: make corpora
