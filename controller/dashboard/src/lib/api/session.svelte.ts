// SPDX-License-Identifier: Apache-2.0
// Who looks: the token, kept for this tab only, and what it is good for.

const KEY = "cachepilot.token";

class Session {
  token = $state(sessionStorage.getItem(KEY) ?? "");
  needsToken = $state(false);
  refused = $state("");
  role = $state("");
  mayChange = $state(false);

  /** Why a button does nothing; empty when it does. */
  get reason(): string {
    if (this.mayChange) return "";
    return this.role === "" ? "not connected yet" : `a ${this.role} may only look`;
  }

  use(token: string): void {
    this.token = token.trim();
    if (this.token === "") sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, this.token);
    this.needsToken = false;
    this.refused = "";
  }

  forget(refused: string): void {
    // Without a token nothing was refused: it was only asked for.
    this.refused = this.token === "" ? "" : refused;
    this.needsToken = true;
    this.role = "";
    this.mayChange = false;
  }
}

export const session = new Session();
