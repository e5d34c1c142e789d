# truth: the result has other strides than in eager mode, and the same values
# stage: none
# seen: no difference beyond rounding
import torch


class Stem(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Conv2d(8, 4, 1)

    def forward(self, image):
        hidden = torch.relu(self.first(image))
        return self.second(hidden).permute(0, 2, 3, 1) + 1.0


def main():
    image = torch.linspace(-1, 1, 2 * 3 * 10 * 10).reshape(2, 3, 10, 10)
    with torch.no_grad():
        return torch.compile(Stem())(image.to(memory_format=torch.channels_last))


if __name__ == "__main__":
    print(main())
