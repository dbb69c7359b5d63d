// SPDX-License-Identifier: Apache-2.0
// A question that is put to the operator before something is done, answered in a dialog of App.

class Question {
  text = $state("");
  #answer: ((isAccepted: boolean) => void) | null = null;

  /** Whether whoever was asked accepts; one question at a time, an earlier one is declined. */
  ask(text: string): Promise<boolean> {
    this.close(false);
    this.text = text;
    return new Promise((answer) => (this.#answer = answer));
  }

  close(isAccepted: boolean): void {
    const answer = this.#answer;
    this.#answer = null;
    this.text = "";
    answer?.(isAccepted);
  }
}

export const question = new Question();
