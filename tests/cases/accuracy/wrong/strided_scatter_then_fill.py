# truth: as_strided_scatter reuses the memory of its argument, which is filled afterwards
# stage: code
# seen: result 0: eager 19, compiled 0.5
import torch


def patch(image, values):
    patched = torch.as_strided_scatter(image, values, (2, 2), (5, 1), 6)  # <-
    image.fill_(0.5)
    return patched


def main():
    image = torch.arange(20.0).reshape(4, 5)
    return torch.compile(patch)(image, torch.full((2, 2), -3.0)), image


if __name__ == "__main__":
    print(main())
