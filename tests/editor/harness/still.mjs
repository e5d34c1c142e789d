/** Pages without motion: a spinner that turns is drawn by the processor, for as long as a run takes. */

export async function stillContext(browser, viewport) {
  const context = await browser.newContext({ viewport, reducedMotion: "reduce" });
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
