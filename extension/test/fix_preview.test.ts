/** The preview of a fix: one at a time, with an end that leaves nothing behind. */

import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { seen } from "./fakes/preview_window.ts";
import { replaceModules } from "./fakes/replace_modules.ts";

replaceModules({
  vscode: "./preview_window.ts",
  "vscode-languageclient/node": "./languageclient.ts",
});
const { createFixPreviews } = await import("../src/server/fix_preview.ts");

const range = { start: { line: 0, character: 0 }, end: { line: 0, character: 0 } };
const previews = createFixPreviews({ toRange: () => range } as never);
const fix = (label: string, version = 1) => ({
  label,
  documents: [{ uri: "file:///m.py", version, edits: [{ range, newText: "b" }] }],
});
const turns = () => new Promise((done) => setImmediate(done));

describe("The preview of a fix", () => {
  beforeEach(() => {
    seen.applied.length = seen.messages.length = 0;
    seen.opens = null;
  });

  it("is applied by its button, and ends", async () => {
    const answer = previews.show(fix("Use where") as never);
    await turns();
    const [shown] = seen.previews();
    assert.equal(seen.text(shown ?? ""), "ba\n");
    assert.equal(seen.context, true);
    previews.apply();
    assert.deepEqual(await answer, { problem: null });
    assert.deepEqual(seen.applied, ["file:///m.py"]);
    assert.deepEqual(seen.previews(), []);
    assert.equal(seen.context, false);
    assert.match(seen.text(shown ?? ""), /This preview has ended/);
  });

  it("is one: of two that are asked for at once, the second stays", async () => {
    const first = previews.show(fix("First") as never);
    const second = previews.show(fix("Second") as never);
    await turns();
    assert.deepEqual(await first, { problem: null });
    assert.equal(seen.previews().length, 1);
    previews.apply();
    assert.deepEqual(await second, { problem: null });
    assert.deepEqual(seen.applied, ["file:///m.py"], "the fix of the second");
  });

  it("leaves nothing when it cannot open, or when the file has changed before", async () => {
    seen.opens = new Error("no diff");
    await assert.rejects(previews.show(fix("Use where") as never), /no diff/);
    assert.equal(seen.context, false);
    seen.opens = null;
    const { problem } = await previews.show(fix("Use where", 7) as never);
    assert.match(problem ?? "", /the file has changed/);
    previews.apply();
    assert.match(seen.messages.at(-1)?.text ?? "", /This preview has ended/);
    assert.deepEqual(seen.applied, []);
  });

  it("says that it has ended when its message is answered later", async () => {
    const answer = previews.show(fix("Use where") as never);
    await turns();
    previews.discard();
    await answer;
    seen.messages[0]?.press("Apply");
    await turns();
    assert.match(seen.messages.at(-1)?.text ?? "", /This preview has ended/);
    assert.deepEqual(seen.applied, []);
  });
});
