/** Servers that hang, crash or do not start: the next one starts, and nothing that was saved meanwhile is lost. */

import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, beforeEach, describe, it } from "node:test";
import { isLostConnection } from "../src/server/lost_connection.ts";
import { within } from "../src/workbench/within.ts";
import { behavior, clients, State } from "./fakes/languageclient.ts";
import { replaceModules } from "./fakes/replace_modules.ts";
import { cell, closed, pythonExtension, saved } from "./fakes/vscode.ts";

replaceModules({
  vscode: "./vscode.ts",
  "vscode-languageclient/node": "./languageclient.ts",
});
const { createLifecycle } = await import("../src/server/lifecycle.ts");

const folder = mkdtempSync(join(tmpdir(), "fuselight-"));
const python = {
  version: [3, 12],
  implementation: "cpython",
  freeThreaded: false,
  prefix: "/usr",
  torch: null,
};
writeFileSync(join(folder, "python3"), `#!/bin/sh\necho '${JSON.stringify(python)}'\n`);
chmodSync(join(folder, "python3"), 0o755);
const path = process.env["PATH"];
after(() => {
  process.env["PATH"] = path;
  rmSync(folder, { recursive: true });
});

const log: string[] = [];
const states: string[] = [];
const write = (text: string) => void log.push(text);

/** The folders that the user was asked about, and those of runs. */
const asked: string[] = [];
const runs: (string | null)[] = [];

function lifecycle(mayStart = true) {
  const context = {
    subscriptions: [],
    asAbsolutePath: (name: string) => join(folder, name),
    extensionPath: folder,
    globalStorageUri: { fsPath: folder },
  };
  const consent = { mayStart: (of: string) => Promise.resolve(asked.push(of) > 0 && mayStart) };
  const beforeRun = (of: string | null) => Promise.resolve(void runs.push(of));
  const parts = { context, log: { info: write, warn: write, error: write }, consent, beforeRun };
  return createLifecycle(parts as never, {
    connect: () => undefined,
    state: (state) => void states.push(state),
    started: () => undefined,
  });
}

const last = () => clients.at(-1) ?? assert.fail("no client");

describe("The owner of the language client", { skip: process.platform === "win32" }, () => {
  beforeEach(() => {
    process.env["PATH"] = folder;
    log.length = states.length = clients.length = asked.length = runs.length = 0;
    behavior.start = behavior.stop = () => Promise.resolve();
    pythonExtension.activate = () => Promise.resolve(null);
  });

  it("restarts a server that does not stop in order", async () => {
    const owner = lifecycle();
    await owner.reconcile("start");
    behavior.stop = () => Promise.reject(new Error("Stopping the server timed out"));
    await owner.restart();
    assert.equal(clients.length, 2);
    assert.equal(owner.client(), last());
    assert.deepEqual(states, ["starting", "starting"]);
    assert.match(log.join("\n"), /did not stop in order: Stopping the server timed out/);
  });

  it("starts again after a start that failed, when something changes", async () => {
    const owner = lifecycle();
    behavior.start = () => Promise.reject(new Error("spawn EAGAIN"));
    await owner.reconcile("start");
    assert.equal(last().isDisposed, true);
    assert.deepEqual(states, ["starting", "failed"]);
    behavior.start = () => Promise.resolve();
    await owner.reconcile("settings changed");
    assert.equal(owner.client(), last());
    assert.equal(clients.length, 2);
  });

  it("replaces a client that has given up, and keeps one that runs", async () => {
    const owner = lifecycle();
    await owner.reconcile("start");
    await owner.reconcile("settings changed");
    assert.equal(clients.length, 1);
    const first = last();
    first.become(State.Stopped);
    await owner.reconcile("settings changed");
    assert.equal(first.isDisposed, true);
    assert.equal(clients.length, 2);
    assert.equal(owner.client(), last());
  });

  it("reports what was saved while a crashed server was started by the library", async () => {
    const owner = lifecycle();
    await owner.reconcile("start");
    last().become(State.Stopped);
    const kept = { languageId: "python", uri: "file:///kept.py", isClosed: false, isDirty: false };
    const gone = { ...kept, uri: "file:///gone.py" };
    saved.fire(kept);
    saved.fire(gone);
    closed.fire(gone);
    last().become(State.Running);
    await new Promise((done) => setImmediate(done));
    assert.deepEqual(last().sent, [{ textDocument: { uri: "file:///kept.py" } }]);
  });

  it("answers with nothing when the server ends before its answer, and with an error otherwise", async () => {
    const owner = lifecycle();
    await owner.reconcile("start");
    const type = { method: "fuselight/graphs" } as never;
    last().answer = () => Promise.reject(Object.assign(new Error("disposed"), { code: -32097 }));
    assert.equal(await owner.request(type, {}), null);
    last().answer = () => Promise.reject(Object.assign(new Error("wrong"), { code: -32603 }));
    await assert.rejects(owner.request(type, {}), /wrong/);
  });

  it("keeps a server that ends while another interpreter is looked for", async () => {
    const owner = lifecycle();
    await owner.reconcile("start");
    last().answer = () => Promise.reject(Object.assign(new Error("disposed"), { code: -32097 }));
    await owner.lookAgain("a run was asked for");
    assert.deepEqual(states, ["starting"]);
  });

  it("asks about the folder before each command that runs its code", async () => {
    await lifecycle(false).reconcile("start");
    const { executeCommand } = last().options.middleware;
    const running = [
      "run",
      "kernels",
      "bench",
      "tune",
      "applyFix",
      "applyAllFixes",
      "verifyForecast",
      "useInputs",
      "repro",
    ];
    for (const name of [...running, "cancelTune", "showGraphs"]) {
      const args = [{ uri: "file:///project/model.py" }];
      const answer = await executeCommand(`fuselight.server.${name}`, args, () => "ran");
      assert.equal(answer, running.includes(name) ? undefined : "ran", name);
    }
    assert.equal(asked.length, running.length);
  });

  for (const uri of [cell, "file:///project/model.py"]) {
    it(`asks about the folder before a run of ${uri}`, async () => {
      for (const mayStart of [false, true]) {
        await lifecycle(mayStart).reconcile("start");
        const { executeCommand } = last().options.middleware;
        const answer = await executeCommand("fuselight.server.run", [{ uri }], () => "ran");
        assert.equal(answer, mayStart ? "ran" : undefined);
      }
      assert.deepEqual(asked, ["file:///work", "file:///work"]);
      assert.deepEqual(runs, ["file:///work"]);
    });
  }

  it("starts without a Python extension that fails", async () => {
    const owner = lifecycle();
    const fails = () => Promise.reject(new Error("no environments"));
    pythonExtension.activate = () => Promise.resolve({ getEnvironment: fails });
    await owner.reconcile("start");
    assert.equal(owner.client(), last());
    assert.match(log.join("\n"), /The Python Environments extension named no interpreter: no environments/);
  });
});

describe("Waiting for another extension", () => {
  it("has an end", async () => {
    await assert.rejects(within(5, new Promise(() => undefined)), /no answer within 0\.005 seconds/);
    assert.equal(await within(1000, Promise.resolve(7)), 7);
    await assert.rejects(within(1000, Promise.reject(new Error("own"))), /own/);
  });
});

it("A lost connection is recognized by its code", () => {
  assert.equal(isLostConnection({ code: -32096 }), true);
  for (const error of [{ code: -32603 }, new Error("text"), null, "text"]) {
    assert.equal(isLostConnection(error), false);
  }
});
