// The PTX: a text field over coloured lines. The field is what is read, edited and moved in; the lines are what is seen.

class Source {
  constructor(root, events) {
    this.root = root;
    this.gutter = $(".gutter", root);
    this.pre = $("pre", root);
    this.field = $("textarea", root);
    this.scroller = $(".editor", root);
    this.events = events;
    this.lines = [];
    this.rows = [];
    this.marks = {};
    this.field.addEventListener("input", () => {
      this.draw();
      events.edited(this.field.value);
    });
    for (const kind of ["keyup", "click", "focus"]) {
      this.field.addEventListener(kind, () => this.moved());
    }
    this.field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && this.field.readOnly) events.enter(this.line());
    });
    this.field.addEventListener("mousemove", (event) => events.hover(this.lineAt(event.clientY)));
    this.field.addEventListener("mouseleave", () => events.hover(null));
  }

  line() {
    return this.field.value.slice(0, this.field.selectionStart).split("\n").length;
  }

  lineAt(y) {
    const row = this.pre.firstElementChild;
    if (!row) return null;
    const height = row.getBoundingClientRect().height || 20;
    return Math.floor((y - this.pre.getBoundingClientRect().top - 4) / height) + 1;
  }

  moved() {
    const line = this.line();
    if (line !== this.last) {
      this.last = line;
      this.events.chose(line);
    }
  }

  show(text, editable) {
    this.field.readOnly = !editable;
    if (this.field.value !== text || !this.lines.length) {
      this.field.value = text;
      this.draw();
    }
  }

  draw() {
    this.lines = this.field.value.split("\n");
    this.pre.innerHTML = this.lines.map((line) => `<div>${ptxHtml(line) || " "}</div>`).join("");
    this.gutter.innerHTML = this.lines.map((_, at) => `<div>${at + 1}</div>`).join("");
    this.marks = {};
    this.rows = [...this.pre.children];
  }

  // Which lines have code, and what is wrong with some.
  annotate(code, messages) {
    const gutter = this.gutter.children;
    for (let at = 0; at < gutter.length; at++) {
      gutter[at].className = code && code.byLine.has(at + 1) ? "has" : "";
      this.pre.children[at].classList.remove("err");
    }
    for (const message of messages) {
      const at = message.line - 1;
      if (message.severity === "error" && gutter[at]) {
        gutter[at].className = "err";
        this.pre.children[at].classList.add("err");
      }
    }
  }

  mark(kind, lines) {
    for (const element of this.marks[kind] || []) element.classList.remove(kind);
    this.marks[kind] = lines.map((line) => this.rows[line - 1]).filter(Boolean);
    for (const element of this.marks[kind]) element.classList.add(kind);
  }

  reveal(line) {
    const row = this.pre.children[line - 1];
    if (!row) return;
    const top = (line - 1) * 20;
    const view = this.scroller;
    if (top < view.scrollTop + 20 || top > view.scrollTop + view.clientHeight - 60) {
      view.scrollTop = top - view.clientHeight / 3;
    }
  }

  go(line) {
    const before = this.lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    this.field.setSelectionRange(before, before);
    this.field.focus({ preventScroll: true });
    this.reveal(line);
  }
}
