/** What a training step needs on a GPU that is not there: in the lens, and on the lines that keep it. */

import { expect } from "../harness/expect.mjs";
import { test } from "../harness/session.mjs";

const net = `import torch
from torch import nn
from torch.nn import functional


# fuselight: Net()(i64[8, 4096], i64[8, 4096], train=True)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(32000, 1024)
        self.norm = nn.LayerNorm(1024)
        self.up, self.down = nn.Linear(1024, 4096), nn.Linear(4096, 1024)
        self.head = nn.Linear(1024, 32000, bias=False)

    def forward(self, tokens, targets):
        x = self.embed(tokens)
        h = self.up(self.norm(x))
        h = functional.gelu(h)
        x = x + self.down(h)
        logits = self.head(x)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
`;

test("a step's memory, in its lens and on its lines", async ({ session }) => {
  const { view } = await session({ files: { "net.py": net, "pyproject.toml": "" } });

  await test.step("one click estimates, after the question", async () => {
    await view.pressUntilAsked("Memory", "under torch.compile");
    await view.allow();
    await expect(view.lens(/peak [\d.]+ GB of 80( GB)? \(compiled\)/)).toBeVisible({ timeout: 240_000 });
  });

  await test.step("each line says what it keeps for the backward", async () => {
    await expect(view.hint("saves ").first()).toBeVisible();
    await view.screenshot("memory");
  });
});
