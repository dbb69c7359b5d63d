// SPDX-License-Identifier: Apache-2.0
// Dark or light: as the system has it, until somebody chooses.

const KEY = "cachepilot.theme";
const system = matchMedia("(prefers-color-scheme: dark)");

class Theme {
  #chosen = $state(localStorage.getItem(KEY) ?? "");
  #system = $state(system.matches);

  constructor() {
    system.addEventListener("change", () => (this.#system = system.matches));
  }

  get isDark(): boolean {
    return this.#chosen === "" ? this.#system : this.#chosen === "dark";
  }

  toggle(): void {
    this.#chosen = this.isDark ? "light" : "dark";
    localStorage.setItem(KEY, this.#chosen);
  }
}

export const theme = new Theme();
