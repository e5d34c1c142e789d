/** What a training step needs on a GPU that is not there: in the lens. */

import { expect } from "../harness/expect.mjs";
import { test } from "../harness/session.mjs";

const net = `import torch
from torch import nn


# fuselight: Net()(f32[8192, 1024], train=True)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(1024)
        self.up, self.down = nn.Linear(1024, 4096), nn.Linear(4096, 1024)

    def forward(self, x):
        h = self.up(self.norm(x))
        h = nn.functional.gelu(h)
        return x + self.down(h)
`;

test("a step's memory, in its lens", async ({ session }) => {
  const { view } = await session({ files: { "net.py": net, "pyproject.toml": "" } });

  await test.step("one click estimates, after the question", async () => {
    await view.pressUntilAsked("Memory", "under torch.compile");
    await view.allow();
    await expect(view.lens(/peak \d+ MB of 80 GB \(compiled\)/)).toBeVisible({ timeout: 240_000 });
  });
});
