// SPDX-License-Identifier: Apache-2.0
// Which page is shown and what of it, by the part of the address after #: an address that is sent
// to somebody else shows them the same.

export type Name = "fleet" | "tenant" | "changes" | "what-if" | "consolidation";

const NAMES: readonly Name[] = ["fleet", "tenant", "changes", "what-if", "consolidation"];
/** Pages by the names that earlier versions gave them in addresses. */
const FORMER: Record<string, Name> = { decisions: "changes" };
/** Browsers let a page write its address only so often; a slider asks for more. */
const WRITE_MS = 200;

export type Words = Record<string, string | readonly string[]>;

interface Place {
  name: Name;
  query: URLSearchParams;
}

function parse(): Place {
  const [path = "", query] = location.hash.replace(/^#\/?/, "").split("?");
  const name = FORMER[path] ?? NAMES.find((one) => one === path) ?? "fleet";
  return { name, query: new URLSearchParams(query ?? "") };
}

function hash({ name, query }: Place): string {
  const text = query.toString();
  return `#/${name}${text === "" ? "" : `?${text}`}`;
}

class Route {
  #now = $state.raw(parse());
  #writing: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    addEventListener("hashchange", () => {
      clearTimeout(this.#writing);
      this.#writing = undefined;
      this.#now = parse();
    });
  }

  get name(): Name {
    return this.#now.name;
  }

  of(key: string): string {
    return this.#now.query.get(key) ?? "";
  }

  all(key: string): string[] {
    return this.#now.query.getAll(key);
  }

  /** The whole address of what is shown now. */
  get address(): string {
    return new URL(hash(this.#now), location.href).href;
  }

  /** What is shown of this page from now on; no step of the browser's history. */
  set(changed: Words): void {
    const query = new URLSearchParams(this.#now.query);
    for (const [key, value] of Object.entries(changed)) {
      query.delete(key);
      for (const one of [value].flat()) if (one !== "") query.append(key, one);
    }
    this.#now = { name: this.#now.name, query };
    const from = location.hash;
    this.#writing ??= setTimeout(() => {
      this.#writing = undefined;
      // Somebody may be on the way to another page.
      if (location.hash === from) history.replaceState(history.state, "", hash(this.#now));
    }, WRITE_MS);
  }
}

export const route = new Route();

export function link(name: Name, query: Record<string, string> = {}): string {
  return hash({ name, query: new URLSearchParams(query) });
}
