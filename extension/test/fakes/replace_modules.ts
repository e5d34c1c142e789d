/** Modules that a test replaces. Call it before the import of what uses them. */

import { registerHooks } from "node:module";

/** Replaces each module by the file in this folder that `fakes` names. */
export function replaceModules(fakes: Record<string, string>): void {
  registerHooks({
    resolve(name, context, next) {
      const fake = fakes[name];
      if (fake !== undefined) {
        return { url: new URL(fake, import.meta.url).href, shortCircuit: true };
      }
      // The bundler, which makes the extension, needs no endings.
      return next(name.startsWith(".") && !name.endsWith(".ts") ? `${name}.ts` : name, context);
    },
  });
}
