/** What a screen reader says of the status item. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { interpreterMessage, spoken } from "../src/status/spoken_status.ts";

test("a state with which the detail begins is said once", () => {
  assert.equal(spoken("starting", "starting GPT2; 1 waiting"), "Fuselight, starting GPT2; 1 waiting");
  assert.equal(spoken("starting", "Starting the server."), "Fuselight, Starting the server.");
});

test("a state that the detail does not say comes first", () => {
  assert.equal(spoken("running", "tracing model.py:88"), "Fuselight, running. tracing model.py:88");
  assert.equal(spoken("ready", "1 target analyzed"), "Fuselight, ready. 1 target analyzed");
  assert.equal(spoken("running", "running_mean"), "Fuselight, running. running_mean");
});

test("a message about an interpreter says where that comes from", () => {
  assert.equal(
    interpreterMessage("/env/bin/python has no torch", "set by fuselight.interpreter"),
    "Fuselight: /env/bin/python has no torch (interpreter: set by fuselight.interpreter).",
  );
  assert.equal(interpreterMessage("No Python was found.", null), "Fuselight: No Python was found.");
});
