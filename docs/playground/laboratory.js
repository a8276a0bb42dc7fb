// The worker as a promise of each call's result.
export class Laboratory {
  constructor() {
    this.worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
    this.waiting = new Map();
    this.next = 0;
    this.ready = new Promise((resolve, reject) => {
      this.worker.addEventListener("error", (event) => reject(new Error(event.message ?? "")));
      this.worker.addEventListener("message", ({ data }) => {
        if (data.failed !== undefined) reject(new Error(data.failed));
        else if (data.ready !== undefined) resolve({ ...data, description: JSON.parse(data.ready) });
        else { this.waiting.get(data.id)(data.result); this.waiting.delete(data.id); }
      });
    });
  }

  // One after the other: the worker answers in order.
  call(method, argument) {
    const id = this.next++;
    return new Promise((resolve) => {
      this.waiting.set(id, resolve);
      this.worker.postMessage({ id, method, argument });
    });
  }
}
