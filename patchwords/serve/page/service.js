// What is asked of the service: each answer once, and nothing that nobody waits for any more.

import { say } from "./words.js";
import { unpacked } from "./matrix.js";

let token = "";

export class Refused extends Error {}

const REASONS = { 400: "unreadable", 413: "tooLarge", 429: "tooMany" };

export function enter(word) {
  token = word; // kept here alone, and gone with the page
}

async function asked(path, values, options = {}) {
  const query = new URLSearchParams(values);
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  let answer;
  try {
    answer = await fetch(`${path}?${query}`, { ...options, headers, cache: "no-store", credentials: "omit" });
  } catch (error) {
    throw error.name === "AbortError" ? error : new Error(say("unreachable"));
  }
  const told = await answer.json().catch(() => ({ error: `${answer.status} ${answer.statusText}` }));
  options.signal?.throwIfAborted(); // half an answer to what was given up is no answer
  if (answer.status === 401) throw new Refused(told.error);
  if (!answer.ok || told.error) throw new Error(say(REASONS[answer.status] || "failed", told));
  return told;
}

export async function models() {
  return (await asked("models", {})).models;
}

const places = new Map();

async function positions(model) {
  if (!model.at_once) return null;
  if (!places.has(model.name)) {
    const { positions: found } = await asked("positions", { model: model.name });
    places.set(model.name, found && unpacked(found));
  }
  return places.get(model.name);
}

let waiting = new AbortController();

// One inference for a picture; what is still on its way for an earlier one is given up.
export async function examined(model, picture) {
  waiting.abort();
  waiting = new AbortController();
  const body = { method: "POST", body: picture, signal: waiting.signal };
  const found = await asked("examine", { model: model.name, top: 5 }, body);
  return { found, source: sourceOf(model, picture) };
}

function sourceOf(model, picture) {
  const known = new Map();
  let current = new AbortController();
  return {
    kept: "heads",
    positions: () => positions(model),
    async attention(layer, head, patch) {
      current.abort();
      const key = [layer, head, patch].join();
      if (known.has(key)) return known.get(key);
      current = new AbortController();
      const which = { model: model.name, layer, head, ...(patch && { row: patch[0], column: patch[1] }) };
      const told = await asked("attention", which, { method: "POST", body: picture, signal: current.signal });
      known.set(key, unpacked(told.attention));
      return known.get(key);
    },
  };
}
