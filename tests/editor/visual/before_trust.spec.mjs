/** A folder that is not trusted. The file is the first that opens the editor, since trust is given once in a window. */

import { expect } from "../harness/expect.mjs";
import { test } from "../harness/session.mjs";

const model = `import torch


# fuselight: step(f32[4])
@torch.compile
def step(x):
    print("step")
    return torch.relu(x)
`;

test("an untrusted folder runs nothing until it is trusted", async ({ stranger }) => {
  const { view } = await stranger({ files: { "step.py": model } });
  await expect(view.status(/Fuselight, not trusted/)).toBeVisible();
  await expect(view.lens("inputs from line 4")).toBeVisible();
  await expect(view.lensAction("Run")).toHaveCount(0);
  await view.screenshot("untrusted");

  await view.trust();
  await expect(view.status(/Fuselight, ready/)).toBeVisible();
  await expect(view.lensAction("Run").first()).toBeVisible();
});
