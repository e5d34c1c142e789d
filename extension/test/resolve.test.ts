/** `resolve` as a table: the Pythons of the machine, the choice, and its reason. */

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type Candidate,
  candidates,
  changedFolders,
  type Environment,
  key,
  offers,
  type Probe,
  type Resolution,
  type Rung,
  resolve,
  type Settings,
  serverStep,
} from "../src/interpreter/resolve.ts";

const folder = "file:///work";
type Answer = Extract<Probe, { ok: true }>;

function candidate(rung: Rung, executable: string): Candidate {
  return { rung, interpreter: { executable, args: [] }, why: `from ${rung}` };
}

function python(minor: number, given: Partial<Answer> = {}): Probe {
  const usual = { implementation: "cpython", freeThreaded: false, prefix: "/usr", torch: null };
  return { ok: true, version: [3, minor], ...usual, ...given };
}

function settings(own: { interpreter?: string; serverInterpreter?: string } = {}): Settings {
  return {
    serverInterpreter: own.serverInterpreter ?? "",
    interpreters: new Map([[folder, own.interpreter ?? ""]]),
  };
}

function machine(
  found: readonly Candidate[],
  probes: Record<string, Probe>,
  bundled = true,
  offered: readonly Candidate[] = [],
): Environment {
  const shared = [candidate("PATH", "/usr/bin/python3")];
  const known = { "/usr/bin/python3": python(11), ...probes };
  return {
    folders: [{ uri: folder, found, offered }],
    shared,
    probes: new Map(
      Object.entries(known).map(([path, probe]) => [key({ executable: path, args: [] }), probe]),
    ),
    bundled,
  };
}

function chosen(resolution: Resolution): readonly [string | undefined, string | undefined] {
  return [resolution.folders[0]?.choice?.interpreter.executable, resolution.server?.interpreter.executable];
}

test("the first usable rung applies to the models and the server", () => {
  const environment = machine([candidate("Python extension", "/a"), candidate("folder", "/b")], {
    "/a": python(12),
    "/b": python(13),
  });
  const resolution = resolve(settings(), environment, true);
  assert.deepEqual(chosen(resolution), ["/a", "/a"]);
  assert.equal(resolution.folders[0]?.why, "from Python extension");
});

test("a broken rung is ignored", () => {
  const environment = machine([candidate("folder", "/broken")], {
    "/broken": { ok: false, problem: "there is no such file" },
  });
  assert.deepEqual(chosen(resolve(settings(), environment, true)), ["/usr/bin/python3", "/usr/bin/python3"]);
});

test("a broken setting is reported instead of ignored", () => {
  const environment = machine([], { "/mine": { ok: false, problem: "there is no such file" } });
  const resolution = resolve(settings({ interpreter: "/mine" }), environment, true);
  assert.deepEqual(chosen(resolution), ["/mine", "/usr/bin/python3"]);
  assert.equal(resolution.folders[0]?.why, "set by fuselight.interpreter, but there is no such file");
});

test("the models' interpreter may be one that the server cannot use", () => {
  for (const probe of [
    python(15),
    python(13, { freeThreaded: true }),
    python(10, { implementation: "pypy" }),
  ]) {
    const environment = machine([candidate("folder", "/odd")], { "/odd": probe });
    assert.deepEqual(chosen(resolve(settings(), environment, true)), ["/odd", "/usr/bin/python3"]);
  }
});

test("without bundled libraries the server takes any Python from 3.10 on", () => {
  const environment = machine([candidate("folder", "/new")], { "/new": python(15) }, false);
  assert.deepEqual(chosen(resolve(settings(), environment, true)), ["/new", "/new"]);
});

test("a Python that is too old is not used, and the reason names it", () => {
  const environment = machine([], { "/usr/bin/python3": python(9) });
  const resolution = resolve(settings(), environment, true);
  assert.deepEqual(chosen(resolution), [undefined, undefined]);
  assert.match(
    resolution.serverWhy,
    /no CPython 3\.10 to 3\.14.*\/usr\/bin\/python3: it is Python 3\.9, older/,
  );
});

test("an untrusted workspace has no interpreter, and its candidates are not probed", () => {
  const environment = machine([candidate("folder", "/project/.venv/bin/python")], {});
  const probed = candidates(settings({ interpreter: "/project/evil" }), environment, false);
  assert.deepEqual(
    probed.map((one) => one.interpreter.executable),
    ["/usr/bin/python3"],
  );
  const resolution = resolve(settings({ interpreter: "/project/evil" }), environment, false);
  assert.deepEqual(chosen(resolution), [undefined, "/usr/bin/python3"]);
  assert.match(resolution.folders[0]?.why ?? "", /not trusted/);
});

test("another interpreter for the models never restarts the server", () => {
  const environment = machine([candidate("folder", "/a"), candidate("folder", "/b")], {
    "/a": python(12),
    "/b": python(13),
  });
  const before = resolve(settings({ interpreter: "/a" }), environment, true);
  const after = resolve(settings({ interpreter: "/b" }), environment, true);
  assert.equal(serverStep(before, after), "keep");
  assert.deepEqual(changedFolders(before, after), [folder]);
  assert.deepEqual(changedFolders(after, after), []);
});

test("the server restarts when its own setting changes, and starts when it can", () => {
  const environment = machine([], { "/s": python(12), "/none": { ok: false, problem: "no" } });
  const before = resolve(settings(), environment, true);
  const after = resolve(settings({ serverInterpreter: "/s" }), environment, true);
  assert.equal(after.server?.interpreter.executable, "/s");
  assert.equal(serverStep(before, after), "restart");
  assert.equal(serverStep(after, before), "restart");
  const without = resolve(settings(), machine([], { "/usr/bin/python3": python(8) }), true);
  assert.equal(serverStep(null, without), "none");
  assert.equal(serverStep(without, before), "start");
  assert.equal(serverStep(before, without), "keep");
});

test("an environment is offered once with its torch, and those with torch come first", () => {
  const found = [candidate("variable", "/usr/bin/python"), candidate("folder", "/env/bin/python3")];
  found.push(candidate("folder", "/broken"));
  const environment = machine(found, {
    "/usr/bin/python": python(11),
    "/env/bin/python3": python(11, { prefix: "/env", torch: "2.13.0" }),
    "/env/bin/python": python(11, { prefix: "/env", torch: "2.13.0" }),
    "/broken": { ok: false, problem: "there is no such file" },
  });
  const offered = offers(settings({ interpreter: "/env/bin/python" }), environment, folder);
  assert.deepEqual(
    offered.map(({ candidate: { interpreter, why }, torch }) => [interpreter.executable, torch, why]),
    [
      ["/env/bin/python", "2.13.0", "set by fuselight.interpreter"],
      ["/usr/bin/python", null, "from variable"],
    ],
  );
});

test("pyenv versions, recent choices and environments next to the folder are offered, and never chosen", () => {
  const probes = {
    "/pyenv/3.12/bin/python": python(12, { prefix: "/pyenv/3.12", torch: "2.13.0" }),
    "/pyenv/3.8/bin/python": python(8),
  };
  const more = [
    candidate("offered", "/pyenv/3.12/bin/python"),
    candidate("offered", "/pyenv/3.8/bin/python"),
  ];
  const environment = machine([], probes, true, more);
  assert.ok(candidates(settings(), environment, true).includes(more[0] as Candidate), "it is probed");
  assert.ok(!candidates(settings(), environment, false).includes(more[0] as Candidate));
  assert.deepEqual(chosen(resolve(settings(), environment, true)), ["/usr/bin/python3", "/usr/bin/python3"]);
  const listed = offers(settings(), environment, folder).map((one) => one.candidate.interpreter.executable);
  assert.deepEqual(listed, ["/pyenv/3.12/bin/python", "/usr/bin/python3"]);
});
