/**
 * Pages without motion: a spinner that turns is drawn by the processor, for as long as a run takes. The server compresses
 * no file for them: the workbench has 20 MB, and both ends are on this machine.
 */

export async function stillContext(browser, viewport) {
  const extraHTTPHeaders = { "Accept-Encoding": "identity" };
  const context = await browser.newContext({ viewport, reducedMotion: "reduce", extraHTTPHeaders });
  await context.addInitScript(stopMotion);
  return context;
}

/** Runs in each frame. */
function stopMotion() {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(
    "*, ::before, ::after { animation-duration: 0s !important; animation-iteration-count: 1 !important; transition-duration: 0s !important; }",
  );
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
}
