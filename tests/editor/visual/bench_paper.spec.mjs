/** A benchmark's page in print: paper does not scroll, so everything must be visible. */

import path from "node:path";
import { expect, test } from "@playwright/test";
import { root } from "../harness/session.mjs";

const row = `<tr>${"<td class='number'>12.3 microseconds</td>".repeat(12)}</tr>`;
const table = `<div class="scroll"><table><tbody>${row.repeat(100)}</tbody></table></div>`;

test("a scrolled table is printed completely", async ({ page }) => {
  await page.setViewportSize({ width: 700, height: 500 });
  await page.setContent(`<header>Head</header><main><section>${table.repeat(3)}</section></main>`);
  await page.addStyleTag({ path: path.join(root, "extension/dist/bench.css") });
  const hidden = () =>
    page.evaluate(() =>
      [...document.querySelectorAll("main, .scroll")].map(
        (one) => getComputedStyle(one).overflowY !== "visible" && one.scrollHeight > one.clientHeight,
      ),
    );
  expect(await hidden()).toEqual([true, true, true, true]);
  await page.emulateMedia({ media: "print" });
  expect(await hidden()).toEqual([false, false, false, false]);
  expect(await page.evaluate(() => document.documentElement.scrollHeight)).toBeGreaterThan(4000);
});
