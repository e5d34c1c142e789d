# truth: a decoder writes keys and values into its cache; each call reads what earlier calls wrote
# stage: none
# seen: no difference beyond rounding
import torch


class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(8, 4))
        self.register_buffer("values", torch.zeros(8, 4))

    def forward(self, token, position):
        self.keys.index_copy_(0, position, token)
        self.values.index_copy_(0, position, token * 0.5)
        scores = token @ self.keys.t()
        visible = torch.arange(8) <= position
        return torch.softmax(scores.masked_fill(~visible, float("-inf")), -1) @ self.values


def main():
    model = Decoder()
    compiled = torch.compile(model)
    with torch.no_grad():
        tokens = torch.linspace(-1, 1, 12).reshape(3, 1, 4)
        return [compiled(token, torch.tensor([step])) for step, token in enumerate(tokens)], model.keys


if __name__ == "__main__":
    print(main())
