/**
 * The HTML around the benchmark's script.
 *
 * Invariant: nothing is loaded but that script and its style sheet, no inline script or style runs, and no address
 * outside the extension is reached. Pictures are `data:` only: that is how charts become PNG.
 */

export interface PageParts {
  /** What VS Code serves the extension's own files from. */
  readonly source: string;
  readonly nonce: string;
  readonly script: string;
  readonly style: string;
}

export function benchPolicy({ source, nonce }: Pick<PageParts, "source" | "nonce">): string {
  return `default-src 'none'; style-src ${source}; script-src 'nonce-${nonce}'; img-src data:`;
}

export function benchPage(parts: PageParts): string {
  return `<!DOCTYPE html>
<html lang="en">
  <head>
    <meta charset="UTF-8">
    <meta http-equiv="Content-Security-Policy" content="${benchPolicy(parts)}">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <link rel="stylesheet" href="${parts.style}">
    <title>Benchmark</title>
  </head>
  <body>
    <script nonce="${parts.nonce}" src="${parts.script}"></script>
  </body>
</html>`;
}
