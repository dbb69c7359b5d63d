// SPDX-License-Identifier: Apache-2.0
// Something that is asked for again and again: one request at a time, the newest answer holds.

import { untrack } from "svelte";
import { Refused } from "./requests";

/** Between an answer and the next request of the same thing. */
const GAP_MS = 150;
/**
 * Between two requests that only an interval of a node is the cause of: many nodes have many. A
 * little less than the default interval, so that what one node alone tells is never late.
 */
const INTERVAL_GAP_MS = 900;

export class Loaded<T> {
  value = $state.raw<T | null>(null);
  error = $state("");
  #load: () => Promise<T>;
  #isBusy = false;
  #isDue = false;
  #resets = 0;
  #askedMs = -Infinity;
  #later: ReturnType<typeof setTimeout> | undefined;

  constructor(load: () => Promise<T>) {
    this.#load = load;
  }

  /** Asks now, or once the request that is under way was answered. */
  refresh(): void {
    untrack(() => {
      if (this.#isBusy) this.#isDue = true;
      else void this.#run();
    });
  }

  /** Asks when the last request is long enough ago, for what every interval of every node changes. */
  refreshLater(): void {
    const wait = this.#askedMs + INTERVAL_GAP_MS - performance.now();
    if (wait <= 0) this.refresh();
    else this.#later ??= setTimeout(() => this.refresh(), wait);
  }

  /** Forgets what was answered, and what a request under way will be: it is about something else. */
  reset(): void {
    this.#resets += 1;
    this.value = null;
    this.error = "";
  }

  async #run(): Promise<void> {
    this.#isBusy = true;
    do {
      this.#isDue = false;
      clearTimeout(this.#later);
      this.#later = undefined;
      this.#askedMs = performance.now();
      const resets = this.#resets;
      try {
        const found = await this.#load();
        if (resets === this.#resets) this.value = found;
        this.error = "";
      } catch (error) {
        this.error = error instanceof Refused ? error.message : String(error);
      }
      await new Promise((done) => setTimeout(done, GAP_MS));
    } while (this.#isDue);
    this.#isBusy = false;
  }
}
