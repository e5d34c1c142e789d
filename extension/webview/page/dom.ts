/**
 * Elements of a page, made without markup, so that content of a workspace stays text.
 *
 * Invariant: styles come from the style sheet, sizes and positions from properties: the page allows no inline style.
 */

type Attributes = Readonly<Record<string, string | number | boolean>>;

export function element<K extends keyof HTMLElementTagNameMap>(
  name: K,
  attributes: Attributes = {},
  ...children: readonly (Node | string)[]
): HTMLElementTagNameMap[K] {
  return filled(document.createElement(name), attributes, children);
}

export function drawing<K extends keyof SVGElementTagNameMap>(
  name: K,
  attributes: Attributes = {},
  ...children: readonly (Node | string)[]
): SVGElementTagNameMap[K] {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function filled<E extends Element>(made: E, attributes: Attributes, children: readonly (Node | string)[]): E {
  for (const [key, value] of Object.entries(attributes)) {
    made.setAttribute(key, String(value));
  }
  made.append(...children);
  return made;
}

export function button(text: string, label: string, press: () => void): HTMLButtonElement {
  const made = element("button", { type: "button", "aria-label": label, title: label }, text);
  made.addEventListener("click", press);
  return made;
}
