// SPDX-License-Identifier: Apache-2.0
// Which page is shown, by the part of the address after #.

export type Name = "fleet" | "tenant" | "decisions" | "what-if" | "consolidation";

const NAMES: readonly Name[] = ["fleet", "tenant", "decisions", "what-if", "consolidation"];

function parse(): { name: Name; query: URLSearchParams } {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const name = NAMES.find((one) => one === path) ?? "fleet";
  return { name, query: new URLSearchParams(query ?? "") };
}

class Route {
  #now = $state.raw(parse());

  constructor() {
    addEventListener("hashchange", () => (this.#now = parse()));
  }

  get name(): Name {
    return this.#now.name;
  }

  of(key: string): string {
    return this.#now.query.get(key) ?? "";
  }
}

export const route = new Route();

export function link(name: Name, query: Record<string, string> = {}): string {
  const words = new URLSearchParams(query).toString();
  return `#/${name}${words === "" ? "" : `?${words}`}`;
}
