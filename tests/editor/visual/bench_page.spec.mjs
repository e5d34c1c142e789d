/** A benchmark's page in a browser, with a fake editor: what a redraw keeps. */

import path from "node:path";
import { test as base } from "@playwright/test";
import { tools } from "../harness/code_server.mjs";
import { expect } from "../harness/expect.mjs";
import { root } from "../harness/session.mjs";

const texts = ["x = self.up(x)", "x = torch.relu(x)", "return self.norm(x)"];
const place = (line) => ({ uri: "file:///w/net.py", path: "net.py", line, text: texts[line] });
const step = (name, start_us, us, depth) => ({
  ...{ name, start_us, us, depth, place: place(0), compile_id: "0/0", sampled: false },
});

/** A profile of lines in the order of their times. */
function details(times) {
  const all = times.reduce((sum, us) => sum + us, 0);
  const lines = times
    .map((us, line) => ({ place: place(line), us, share: us / all, kernels: [`kernel_${line}`] }))
    .toSorted((left, right) => right.us - left.us);
  const where = lines.map(({ place, us, share }) => ({
    ...{ kind: "kernel", label: "kernels", us, share, place, what: `kernel_${place.line}` },
  }));
  const steps = [step("compile", 0, 1e6, 0), step("inductor", 2e5, 6e5, 1), step("codegen", 3e5, 2e5, 2)];
  const totals = { source: "CUPTI", wall_us: all, kernel_us: all, joined: 1 };
  return { ...totals, lines, where, no_lines: "", kernels: [], roofline: null, steps };
}

function measured(profiles, changes = {}) {
  const texts = { title: "Net", message: "", target: "Net", path: "net.py", uri: "file:///w/net.py" };
  const about = {
    run: null,
    found: true,
    running: false,
    stale: false,
    partial: false,
    when: "2026-01-31T12:00:00Z",
    work: "inference",
  };
  const lists = { inputs: [], verdict: [], machine: [], notes: [], configurations: [], history: [] };
  return { ...texts, ...about, ...lists, profiles, comparison: null, ...changes };
}

const test = base.extend({
  /** `draw(page)` sends what the extension sends. */
  draw: async ({ page }, use) => {
    const errors = [];
    page.on("pageerror", (error) => errors.push(error));
    await page.addInitScript(() => {
      globalThis.sent = [];
      const host = {
        postMessage: (one) => globalThis.sent.push(one),
        getState: () => undefined,
        setState: () => {},
      };
      globalThis.acquireVsCodeApi = () => host;
    });
    await page.goto("about:blank");
    await page.addStyleTag({ path: path.join(root, "extension/dist/bench.css") });
    await page.addScriptTag({ path: path.join(root, "extension/dist/bench.js") });
    const of = { uri: "file:///w/net.py", target: "Net", run: null, with: null };
    await use((data) =>
      page.evaluate((message) => window.postMessage(message, "*"), { type: "draw", of, page: data }),
    );
    expect(errors).toEqual([]);
  },
});

const chartOf = (page, name) => page.getByRole("application", { name });
/** The description of the selected line, with its time. */
const described = (page, line, time) => page.getByText(new RegExp(`^net\\.py:${line + 1}\\. .*${time}`));
/** Changes the theme as VS Code does. */
const changeTheme = (page, name) =>
  page.evaluate((theme) => {
    document.body.className = theme;
  }, name);

test("a change of theme keeps the selection of a chart", async ({ page, draw }) => {
  await draw(measured({ default: details([30, 20, 10]) }));
  const chart = chartOf(page, /^Chart: Time by line/);
  await chart.focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await expect(described(page, 1, "20 µs")).toBeVisible();
  await chart.blur(); // as when a theme is chosen in a list
  await changeTheme(page, "vscode-high-contrast");
  await chart.focus();
  await expect(described(page, 1, "20 µs")).toBeVisible();
  await page.keyboard.press("ArrowDown");
  await expect(described(page, 2, "10 µs")).toBeVisible();
});

test("new times keep the selected line of a chart", async ({ page, draw }) => {
  await draw(measured({ default: details([30, 20, 10]) }, { running: true }));
  const chart = chartOf(page, /^Chart: Time by line/);
  await chart.focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await expect(described(page, 1, "20 µs")).toBeVisible();
  const after = { default: details([30, 45, 10, 1].slice(0, 3)), dynamic: details([1, 2, 3]) };
  await draw(measured(after, { running: true }));
  await expect(described(page, 1, "45 µs")).toBeVisible();
  await expect(chart).toBeFocused();
  await page.keyboard.press("ArrowDown");
  await expect(described(page, 0, "30 µs")).toBeVisible();
});

test("a chart keeps its selection when the focus returns", async ({ page, draw }) => {
  await draw(measured({ default: details([30, 20, 10]) }));
  await chartOf(page, /^Chart: Time by line/).focus();
  await page.keyboard.press("End");
  await expect(described(page, 2, "10 µs")).toBeVisible();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Shift+Tab");
  await page.keyboard.press("ArrowUp");
  await expect(described(page, 1, "20 µs")).toBeVisible();
});

const row = (name, known) => {
  const times = {
    speedup: null,
    us: null,
    spread: null,
    unsteady: false,
    clock: null,
    wall_us: null,
    calls: 0,
  };
  const sizes = { first_us: null, second_us: null, peak_bytes: null, own_bytes: null, graph_breaks: null };
  const others = { failure: null, accuracy: null, compiles: null, recompiles: null, notes: [] };
  return { name, ...times, ...sizes, ...others, ...known };
};

test("without times, the page says that it is still measuring", async ({ page, draw }) => {
  const rows = [row("eager", { first_us: 109e3, second_us: 90e3 }), row("default", {})];
  const started = { configurations: rows, partial: true, message: "default: compiling" };
  await draw(measured({}, { ...started, running: true }));
  const cells = (name) => page.getByRole("row", { name });
  await expect(cells(/^eager .*still measuring .* 109 ms ?second 90 ms/)).toBeVisible();
  await expect(cells(/^default .*not yet measured/)).toBeVisible();
  await expect(page.getByText("Results appear here as they are measured")).toBeVisible();
  await expect(page.getByText(/started, 2026-01-31/)).toBeVisible();
  const timed = [row("eager", { us: 300, spread: 0.01, first_us: 109e3 }), rows[1]];
  await draw(measured({}, { ...started, configurations: timed, running: true }));
  await expect(page.getByText("Still measuring: the results are incomplete")).toBeVisible();
  await draw(measured({}, { ...started, configurations: timed, running: false }));
  await expect(cells(/^default .*not measured/)).toBeVisible();
  await expect(page.getByText("till measuring")).toHaveCount(0);
});

for (const theme of ["vscode-dark", "vscode-light"]) {
  test(`half of a window of 900 px cuts no cell of a table: ${theme}`, async ({ page, draw }) => {
    await page.setViewportSize({ width: 420, height: 900 });
    await changeTheme(page, theme);
    const accuracy = {
      passed: null,
      tensors: [],
      place: null,
      text: "eager is nondeterministic, and the compiled code draws other numbers",
    };
    const times = { us: 24_600, spread: 0.18, unsteady: true, clock: "wall", calls: 36, speedup: 1.53 };
    const sizes = { first_us: 5.4e7, second_us: 726e3, peak_bytes: 4.4e8, own_bytes: 1e8, graph_breaks: 6 };
    const known = { ...times, ...sizes, compiles: 9, recompiles: 1 };
    const configurations = [row("eager", { ...known, speedup: 1 }), row("written", { ...known, accuracy })];
    await draw(measured({ written: details([30, 20, 10]) }, { configurations }));
    await expect(page.getByRole("row", { name: /^as in source .*1\.53/ })).toBeVisible();
    const cells = page.getByRole("region", { name: "Configurations" }).getByRole("cell");
    expect(await cells.count()).toBeGreaterThan(8);
    for (const box of await cells.evaluateAll((all) =>
      all.map((one) => one.getBoundingClientRect().toJSON()),
    )) {
      expect(box.left).toBeGreaterThanOrEqual(0);
      expect(box.right).toBeLessThanOrEqual(420);
    }
    await page.screenshot({ path: path.join(tools.artifacts, `benchmark-narrow-${theme}.png`) });
  });
}

test("a page says that it is loading until it has something to draw", async ({ page }) => {
  await page.addInitScript(() => {
    const host = { postMessage: () => {}, getState: () => undefined, setState: () => {} };
    globalThis.acquireVsCodeApi = () => host;
  });
  await page.goto("about:blank");
  await page.setContent('<p id="loading" role="status">Loading Benchmark: Net (net.py)</p>');
  await page.addStyleTag({ path: path.join(root, "extension/dist/bench.css") });
  await page.addScriptTag({ path: path.join(root, "extension/dist/bench.js") });
  const loading = page.getByText("Loading Benchmark: Net (net.py)");
  await expect(loading).toBeVisible();
  await expect(page.getByRole("heading")).toHaveCount(0);
  const of = { uri: "file:///w/net.py", target: "Net", run: null, with: null };
  await page.evaluate((message) => window.postMessage(message, "*"), {
    type: "draw",
    of,
    page: measured({}),
  });
  await expect(page.getByRole("heading", { name: "Benchmark of Net" })).toBeVisible();
  await expect(loading).toHaveCount(0);
});

test("a statement about another configuration is not among the details of this one", async ({
  page,
  draw,
}) => {
  const configurations = ["eager", "default", "max-autotune"].map((name) => row(name, { us: 300 }));
  const texts = ["default is 3.0× as fast as eager", "50% of a call is guards", "max-autotune failed"];
  const named = ["default", "", "max-autotune"];
  const verdict = texts.map((text, index) => ({ text, place: null, configuration: named[index] }));
  await draw(measured({}, { configurations, verdict }));
  const said = page.getByRole("region", { name: "Verdict" }).locator("p, li");
  const about = "Details for default:";
  await expect(said).toHaveText([texts[0], texts[2], about, texts[1]]);
});

test("only a saved run can be removed", async ({ page, draw }) => {
  const remove = page.getByRole("button", { name: "Remove this benchmark from the history" });
  await draw(measured({}, { run: "20260131T120000Z" }));
  await remove.click();
  const sent = await page.evaluate(() => globalThis.sent.at(-1));
  expect(sent).toEqual({ type: "forget", run: "20260131T120000Z" });
  await draw(measured({}, { notes: ["not kept"] }));
  await expect(page.getByText("not kept")).toBeVisible();
  await expect(remove).toHaveCount(0);
});

test("a redraw keeps the zoom", async ({ page, draw }) => {
  const profiles = { default: details([30, 20, 10]) };
  await draw(measured(profiles));
  const chart = chartOf(page, /^Chart: Phases of the cold compile/);
  const picture = () => chart.locator("canvas").evaluate((canvas) => canvas.toDataURL());
  const unzoomed = await picture();
  await chart.focus();
  await page.keyboard.press("+");
  await page.keyboard.press("+");
  await expect.poll(picture).not.toBe(unzoomed);
  const zoomed = await picture();
  await changeTheme(page, "redrawn");
  await expect.poll(picture).toBe(zoomed);
  await draw(measured(profiles, { notes: ["something else is known"] }));
  await expect(page.getByText("something else is known")).toBeVisible();
  await expect.poll(picture).toBe(zoomed);
  await page.keyboard.press("0");
  await expect.poll(picture).toBe(unzoomed);
});

test("an exported file is an entry of the list of comparisons", async ({ page, draw }) => {
  const of = { uri: "file:///w/net.py", target: "Net", run: null, with: null };
  await draw(measured({ default: details([30, 20, 10]) }));
  const list = page.getByRole("combobox", { name: "Compare with" });
  await list.selectOption("an exported file...");
  await expect(list).toHaveValue("");
  expect(await page.evaluate(() => globalThis.sent.at(-1))).toEqual({ type: "chooseFile" });
  const shown = measured({ default: details([30, 20, 10]) }, { notes: ["compared"] });
  const message = { type: "draw", of: { ...of, with: "/tmp/other/net-json.json" }, page: shown };
  await page.evaluate((one) => window.postMessage(one, "*"), message);
  await expect(list.locator("option:checked")).toHaveText("net-json.json");
});

test("a narrow window keeps most of its height for the benchmark", async ({ page, draw }, info) => {
  await page.setViewportSize({ width: 800, height: 600 });
  const configurations = ["eager", "default", "reduce-overhead", "max-autotune"].map((name) =>
    row(name, { us: 300 }),
  );
  const said = "another run was active (Net (kernels) in models/unet.py): timings may be inflated";
  const machine = ["device", "driver", "torch", "threads"].map((name) => ({ name, value: "as measured" }));
  const kept = Array.from({ length: 9 }, (_, number) => ({
    ...{ id: `${number}`, when: "2026-01-31T12:00:00Z", device: "NVIDIA H200", label: "main, torch 2.13" },
  }));
  const message = "The last benchmark failed: CUDA out of memory. ".repeat(8);
  const about = {
    configurations,
    machine,
    notes: [said, said],
    history: kept,
    run: "1",
    stale: true,
    message,
  };
  await draw(measured({ default: details([30, 20, 10]), dynamic: details([1, 2, 3]) }, about));
  const header = page.locator("header");
  await expect(header.getByRole("combobox", { name: "Compare with" })).toBeAttached();
  await page.screenshot({ path: info.outputPath("narrow.png") });
  const height = async () => (await header.boundingBox()).height;
  expect(await height()).toBeLessThanOrEqual(180);
  await page.getByRole("heading", { name: "Notes" }).scrollIntoViewIfNeeded();
  expect(await height()).toBeLessThanOrEqual(180);
  await expect(page.getByRole("heading", { name: "Notes" })).toBeInViewport();
  await header.getByRole("button").last().scrollIntoViewIfNeeded();
  await expect(header.getByRole("button").last()).toBeInViewport();
});
