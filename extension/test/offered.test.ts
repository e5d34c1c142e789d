import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { test } from "node:test";
import { offeredIn, pythonAt, pythonInFolder } from "../src/interpreter/offered.ts";

/** A home with Pythons of every kind, and a project beside an environment. */
function machine(): string {
  const home = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "fuselight-home-")));
  for (const prefix of ["pyenv/versions/3.9.1", "pyenv/versions/3.12.0", "work/.venv", "conda/envs/gpu"]) {
    const python = path.join(home, prefix, ...pythonInFolder);
    fs.mkdirSync(path.dirname(python), { recursive: true });
    fs.writeFileSync(python, "");
  }
  fs.mkdirSync(path.join(home, "work", "project"));
  fs.mkdirSync(path.join(home, ".conda"));
  const environments = [path.join(home, "conda/envs/gpu"), path.join(home, "conda/envs/removed"), ""];
  fs.writeFileSync(path.join(home, ".conda", "environments.txt"), environments.join("\n"));
  return home;
}

test("the picker offers recent choices, ../.venv, pyenv's versions and conda's environments", (context) => {
  const home = machine();
  const before = { HOME: process.env["HOME"], PYENV_ROOT: process.env["PYENV_ROOT"] };
  Object.assign(process.env, { HOME: home, PYENV_ROOT: path.join(home, "pyenv") });
  context.after(() => {
    for (const [name, value] of Object.entries(before)) {
      if (value === undefined) {
        delete process.env[name];
      } else {
        process.env[name] = value;
      }
    }
    fs.rmSync(home, { recursive: true });
  });
  const recent = [path.join(home, "work/.venv", ...pythonInFolder), path.join(home, "gone/bin/python")];
  const found = offeredIn(path.join(home, "work", "project"), recent).map((one) => [
    one.why,
    path.relative(home, one.interpreter.executable),
  ]);
  const python = path.join(...pythonInFolder);
  assert.deepEqual(found, [
    ["chosen recently", path.join("work/.venv", python)],
    ["next to the folder", path.join("work/.venv", python)],
    ["pyenv", path.join("pyenv/versions/3.12.0", python)],
    ["pyenv", path.join("pyenv/versions/3.9.1", python)],
    ["conda", path.join("conda/envs/gpu", python)],
  ]);
});

test("a pasted path may be an interpreter or the folder of its environment", (context) => {
  const home = machine();
  context.after(() => fs.rmSync(home, { recursive: true }));
  const folder = path.join(home, "work/.venv");
  const python = path.join(folder, ...pythonInFolder);
  assert.equal(pythonAt(folder), python);
  assert.equal(pythonAt(python), python);
  assert.equal(pythonAt("/no/such/python"), "/no/such/python");
});
