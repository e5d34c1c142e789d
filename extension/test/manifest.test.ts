/** The manifest against the sources: every command exists on both sides, every menu names one, every file is there. */

import assert from "node:assert/strict";
import * as fs from "node:fs";
import { test } from "node:test";

const root = new URL("../../", import.meta.url);
const read = (name: string) => fs.readFileSync(new URL(name, root), "utf8");
const manifest = JSON.parse(read("package.json"));
const commands = new Set<string>(
  manifest.contributes.commands.map((one: { command: string }) => one.command),
);

test("each command of the manifest is registered, and each registered one is in the manifest", () => {
  const registered = [...read("extension/src/commands.ts").matchAll(/^\s+"(fuselight\.[a-zA-Z]+)":/gm)].map(
    (match) => match[1],
  );
  assert.deepEqual(registered.toSorted(), [...commands].toSorted());
});

test("menus, keys, views and the walkthrough name commands that exist", () => {
  const text = JSON.stringify([
    manifest.contributes.menus,
    manifest.contributes.keybindings,
    manifest.contributes.viewsWelcome,
    manifest.contributes.walkthroughs,
  ]);
  for (const [, name] of text.matchAll(/(?:"command":"|command:|onCommand:)(fuselight\.[a-zA-Z.]+)/g)) {
    assert.ok(commands.has(name ?? "") || name === "fuselight.report.focus", `${name} is no command`);
  }
});

test("each view that the extension creates or opens is in the manifest", () => {
  const containers: readonly { readonly id: string }[][] = Object.values(manifest.contributes.views);
  const views = new Set(containers.flat().map(({ id }) => id));
  const named = ["report/view.ts", "status/status.ts"].flatMap((file) => [
    ...read(`extension/src/${file}`).matchAll(/createTreeView\("([^"]+)"|"(fuselight\.[a-z.]+)\.focus"/g),
  ]);
  assert.ok(named.length >= 3);
  for (const [, created, opened] of named) {
    assert.ok(views.has(created ?? opened ?? ""), `${created ?? opened} is no view`);
  }
});

test("files that the manifest names are there", () => {
  const media = [...read("package.json").matchAll(/"(extension\/media\/[^"]+)"/g)].map(
    (match) => match[1] ?? "",
  );
  assert.ok(media.length >= 6);
  for (const name of media) {
    assert.ok(fs.existsSync(new URL(name, root)), `${name} is missing`);
  }
});

test("settings that choose what is executed cannot come from an untrusted workspace", () => {
  const restricted = new Set(manifest.capabilities.untrustedWorkspaces.restrictedConfigurations);
  for (const name of ["interpreter", "serverInterpreter", "environment", "dynamo.config"]) {
    assert.ok(restricted.has(`fuselight.${name}`), `${name} is not restricted`);
  }
});

test("every setting is documented, has a default and a scope", () => {
  for (const [name, value] of Object.entries<Record<string, unknown>>(
    manifest.contributes.configuration.properties,
  )) {
    assert.ok(value["description"] ?? value["markdownDescription"], `${name} has no description`);
    assert.notEqual(value["default"], undefined, `${name} has no default`);
    assert.ok(value["scope"], `${name} has no scope`);
  }
});

test("skills for agents are there, are packaged, and name tools that the server has", () => {
  const declared = JSON.parse(read("server/fuselight_server/agents/tool.json")) as { tools: object };
  const tools = new Set(Object.keys(declared.tools));
  assert.ok(tools.size >= 10);
  const skills: readonly { readonly path: string }[] = manifest.contributes.chatSkills;
  assert.equal(skills.length, 1);
  for (const { path } of skills) {
    const named = [...read(path).matchAll(/^\|[^|]*\| `(\w+)` \|$/gm)].map(([, name]) => name ?? "");
    assert.ok(named.length >= 10);
    assert.deepEqual(
      named.filter((name) => !tools.has(name)),
      [],
    );
  }
  assert.match(read(".vscodeignore"), /^!skills\//m);
});
