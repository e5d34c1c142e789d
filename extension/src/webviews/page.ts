/**
 * The HTML around the script of a page.
 *
 * Invariant: the policy allows that script and its style sheet, no inline script or style, and no address outside the
 * extension. Pictures may be `data:` only: charts are exported that way. A line says that the page is loading until its
 * script has something to draw (webview/page/host.ts). Nothing of VS Code is imported.
 */

export interface PageParts {
  /** What VS Code serves the extension's own files from. */
  readonly source: string;
  readonly nonce: string;
  readonly script: string;
  readonly style: string;
  /** Title of the page, while it loads. */
  readonly title: string;
}

export function pagePolicy({ source, nonce }: Pick<PageParts, "source" | "nonce">): string {
  return `default-src 'none'; style-src ${source}; script-src 'nonce-${nonce}'; img-src data:`;
}

export function pageHtml(parts: PageParts): string {
  return `<!DOCTYPE html>
<html lang="en">
  <head>
    <meta charset="UTF-8">
    <meta http-equiv="Content-Security-Policy" content="${pagePolicy(parts)}">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <link rel="stylesheet" href="${parts.style}">
    <title>Fuselight</title>
  </head>
  <body>
    <p id="loading" role="status">Loading ${escaped(parts.title)}\u2026</p>
    <script nonce="${parts.nonce}" src="${parts.script}"></script>
  </body>
</html>`;
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
