// SPDX-License-Identifier: Apache-2.0
// The focus of something that is taken away goes to what it was in, not to nothing.

export function focusOn(found: HTMLElement): void {
  if (!found.matches("a[href], button, input, select, [tabindex]")) found.tabIndex = -1;
  found.focus({ preventScroll: true });
}

/** Watches what is in `main` until the returned function is called. */
export function keepFocus(main: HTMLElement): () => void {
  let held: HTMLElement[] = [];
  const remember = (event: FocusEvent): void => {
    held = [];
    let at = event.target as HTMLElement | null;
    for (; at !== null && main.contains(at); at = at.parentElement) held.push(at);
  };
  // Who clicks beside everything wants the focus nowhere.
  const forget = (): void => void (held = []);
  const watcher = new MutationObserver(() => {
    if (held[0] === undefined || held[0].isConnected) return;
    const isLost = document.activeElement === null || document.activeElement === document.body;
    const home = held.find((one) => one.isConnected && one.matches("section, main"));
    held = [];
    if (isLost && home !== undefined) focusOn(home);
  });
  document.addEventListener("focusin", remember);
  document.addEventListener("pointerdown", forget);
  watcher.observe(main, { childList: true, subtree: true });
  return () => {
    document.removeEventListener("focusin", remember);
    document.removeEventListener("pointerdown", forget);
    watcher.disconnect();
  };
}
