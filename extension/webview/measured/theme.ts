/**
 * Colors and fonts of the charts, which are drawn on a canvas and therefore cannot use the style sheet.
 *
 * Invariant: everything comes from the current values of the variables of `tokens.css`; `onThemeChange` reports changes.
 */

export type Theme = Readonly<ReturnType<typeof readTheme>>;

const colors = 10;

export function readTheme() {
  const probe = document.createElement("span");
  probe.hidden = true;
  document.body.append(probe);
  const color = (name: string) => {
    probe.style.color = `var(--${name})`; // resolves light-dark() and variables of variables
    return inNumbers(getComputedStyle(probe).color);
  };
  const font = (name: string) => {
    probe.style.fontFamily = `var(--${name})`;
    return getComputedStyle(probe).fontFamily;
  };
  const theme = {
    text: color("text"),
    muted: color("muted"),
    background: color("background"),
    grid: color("grid"),
    accent: color("accent"),
    font: font("font"),
    mono: font("mono"),
    size: Number.parseFloat(getComputedStyle(document.body).fontSize) || 13,
    palette: Array.from({ length: colors }, (_, index) => color(`chart-${index + 1}`)),
    /** High contrast: patterns in addition to colors, and outlines. */
    contrast:
      document.body.classList.contains("vscode-high-contrast") ||
      document.body.classList.contains("vscode-high-contrast-light") ||
      matchMedia("(forced-colors: active)").matches,
  };
  probe.remove();
  return theme;
}

/**
 * Converts a color to `rgb(...)` by painting it, because ECharts cannot parse `color(srgb ...)`. Drops the transparency,
 * because some themes define a nearly transparent orange for highlights under text.
 */
function inNumbers(color: string): string {
  const pen = new OffscreenCanvas(1, 1).getContext("2d");
  if (pen === null) {
    return color;
  }
  pen.fillStyle = color;
  pen.fillRect(0, 0, 1, 1);
  const [red = 0, green = 0, blue = 0] = pen.getImageData(0, 0, 1, 1).data;
  return `rgb(${red},${green},${blue})`;
}

/** Black or white, whichever is easier to read on `color`. */
export function readableOn(color: string): string {
  const [red = 0, green = 0, blue = 0] = (color.match(/[\d.]+/g) ?? []).map((part) => Number(part) / 255);
  const linear = (part: number) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  const luminance = 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
  return luminance > 0.179 ? "#000000" : "#ffffff";
}

export function onThemeChange(tell: () => void): void {
  new MutationObserver(tell).observe(document.body, {
    attributes: true,
    attributeFilter: ["class", "data-vscode-theme-id"],
  });
  for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) {
    matchMedia(query).addEventListener("change", tell);
  }
}

/** The color of an index, the same on every page. */
export function colorOf(theme: Theme, index: number): string {
  return theme.palette[index % theme.palette.length] ?? theme.accent;
}
