// State that parts of the page share: the moment under the cursor, the line of the drawing that is looked at, the
// unit whose links are listed.

export class Shared<T> {
  private listeners = new Set<(value: T) => void>();
  constructor(private current: T) {}
  get value(): T {
    return this.current;
  }
  set(next: T) {
    if (next === this.current) return;
    this.current = next;
    this.listeners.forEach((listener) => listener(next));
  }
  listen(listener: (value: T) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

export const moment = new Shared<number | null>(null); // ps
export const shownLine = new Shared<number | null>(null);
export const chosenUnit = new Shared<number | null>(null);
