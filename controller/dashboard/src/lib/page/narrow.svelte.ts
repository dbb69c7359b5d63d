// SPDX-License-Identifier: Apache-2.0
// Whether the screen is a phone's: tables are cards then, as app.css has it for the same width.

const query = matchMedia("(max-width: 700px)");

class Narrow {
  #now = $state(query.matches);

  constructor() {
    query.addEventListener("change", () => (this.#now = query.matches));
  }

  get is(): boolean {
    return this.#now;
  }
}

export const narrow = new Narrow();
