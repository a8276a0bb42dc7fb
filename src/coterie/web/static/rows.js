// A list of very many rows, of which only those in sight are elements.

const OVERSCAN = 6;

/** `fill(row, item)` writes an item into a row that `make()` made; each is used for one item after another. */
export class VirtualRows {
  constructor(scroll, make, fill) {
    this.scroll = scroll;
    this.tall = scroll.firstElementChild;
    this.make = make;
    this.fill = fill;
    this.items = [];
    this.pool = [];
    this.isDrawing = this.isStale = false;
    scroll.addEventListener("scroll", () => this.drawSoon(), { passive: true });
    new ResizeObserver(() => this.measure()).observe(scroll);
    this.measure();
  }

  measure() {
    this.height = parseFloat(getComputedStyle(this.scroll).getPropertyValue("--row")) || 40;
    this.show(this.items);
  }

  show(items) {
    this.items = items;
    this.tall.style.height = `${items.length * this.height}px`;
    this.draw();
  }

  draw() {
    this.isStale = true;
    this.drawSoon();
  }

  drawSoon() {
    if (this.isDrawing) return;
    this.isDrawing = true;
    requestAnimationFrame(() => {
      this.isDrawing = false;
      this.drawNow();
    });
  }

  drawNow() {
    const first = Math.max(Math.floor(this.scroll.scrollTop / this.height) - OVERSCAN, 0);
    const count = Math.min(Math.ceil(this.scroll.clientHeight / this.height) + 2 * OVERSCAN, this.items.length - first);
    while (this.pool.length < count) {
      const row = this.make();
      this.pool.push(row);
      this.tall.append(row);
    }
    // An index keeps its element while it stays in sight, so that a focused link stays focused.
    const size = this.pool.length;
    for (let slot = 0; slot < size; slot++) {
      const index = first + ((slot - (first % size) + size) % size);
      const row = this.pool[slot];
      const isShown = index < first + count;
      row.hidden = !isShown;
      if (!isShown) row.dataset.index = -1;
      if (!isShown || (!this.isStale && Number(row.dataset.index) === index)) continue; // a scroll changes the rows that come
      row.style.transform = `translateY(${index * this.height}px)`;
      row.setAttribute("aria-rowindex", index + 2);
      row.dataset.index = index;
      this.fill(row, this.items[index]);
    }
    this.isStale = false;
  }

  /** Puts the focus on the link of a row, which scrolls into sight. */
  focus(index) {
    const at = Math.min(Math.max(index, 0), this.items.length - 1);
    const top = at * this.height;
    const { scrollTop, clientHeight } = this.scroll;
    if (top < scrollTop) this.scroll.scrollTop = top;
    else if (top + this.height > scrollTop + clientHeight) this.scroll.scrollTop = top + this.height - clientHeight;
    this.drawNow();
    this.pool.find((row) => !row.hidden && Number(row.dataset.index) === at)?.querySelector("a")?.focus({ preventScroll: true });
  }
}

/** The list that the template's macro `listed` made; `columns` are the classes of its cells, `fill(cells, item, row)` writes one. */
export class List {
  constructor(id, columns, fill) {
    this.root = document.getElementById(id);
    const make = () => {
      const row = document.createElement("div");
      row.className = "row";
      row.setAttribute("role", "row");
      row.cells = {};
      for (const name of columns) {
        const cell = document.createElement("div");
        cell.className = `cell ${name}`;
        cell.setAttribute("role", "cell");
        row.append((row.cells[name] = cell));
      }
      return row;
    };
    this.rows = new VirtualRows(this.root.querySelector(".scroll"), make, (row, item) => fill(row.cells, item, row));
    this.root.addEventListener("keydown", (event) => this.move(event));
  }

  show(items) {
    this.root.setAttribute("aria-rowcount", items.length + 1);
    this.root.style.setProperty("--count", items.length);
    this.rows.show(items);
  }

  draw() {
    this.rows.draw();
  }

  /** From row to row by the keyboard, where rows have links. */
  move(event) {
    const at = Number(document.activeElement.closest(".row")?.dataset.index ?? -1);
    const page = Math.floor(this.rows.scroll.clientHeight / this.rows.height);
    const steps = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: Infinity };
    if (!(event.key in steps) || !this.rows.items.length || !this.root.querySelector(".tall a")) return;
    event.preventDefault();
    this.rows.focus(steps[event.key]);
  }
}

/** "/" puts the focus into the field that finds. */
export function findByKey(find) {
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.matches("input, select, textarea")) return;
    event.preventDefault();
    find.focus();
  });
}
