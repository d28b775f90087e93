// Facts about a document: what the other scripts ask of it, and text as HTML.

const $ = (selector, root = document) => root.querySelector(selector);

const escape = (text) =>
  String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);

const hex = (number, digits = 4) => "0x" + number.toString(16).padStart(digits, "0");

const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

// A function of a document with what is worked out once: its blocks by instruction, instructions by PTX line, the highest pressure.
class Code {
  constructor(document, fn) {
    this.document = document;
    this.fn = fn;
    this.rows = fn.instructions;
    this.blocks = fn.blocks || [];
    this.blockOf = new Int32Array(this.rows.length).fill(-1);
    this.blocks.forEach((block, number) => this.blockOf.fill(number, block.first, block.first + block.count));
    this.byLine = new Map();
    this.mostLive = 1;
    this.users = new Map();
    this.rows.forEach((row, index) => {
      if (row.line) {
        if (!this.byLine.has(row.line)) this.byLine.set(row.line, []);
        this.byLine.get(row.line).push(index);
      }
      this.mostLive = Math.max(this.mostLive, row.live || 0);
      for (const one of row.depends || []) {
        if (!this.users.has(one.on)) this.users.set(one.on, []);
        this.users.get(one.on).push(index);
      }
    });
    this.labels = new Map();
    for (const [name, address] of Object.entries(fn.labels || {})) this.labels.set(address / 16, name);
  }

  hasWords() {
    return this.blocks.some((block) => block.words !== undefined);
  }

  // Cycles of a block by a clock: what the control words say, or what the dependences allow.
  cycles(block, clock) {
    return clock === "words" && block.words !== undefined ? block.words : block.model;
  }

  issue(index, clock) {
    const row = this.rows[index];
    const at = clock === "words" && row.words ? row.words : row.model;
    return at ? at.issue : undefined;
  }

  // Cycles in which nothing issued before an instruction, why, and which instruction is to blame.
  stall(index, clock) {
    const row = this.rows[index];
    if (clock === "words" && row.words) {
      const waited = row.words.waited || 0;
      if (!waited) return { cycles: 0 };
      const on = (row.waits || []).join(", ");
      const blamed = row.words.blamed;
      const who = blamed === undefined ? "held since before the block" : `held by ${this.brief(blamed)}`;
      return { cycles: waited, why: `waits for barrier ${on}, ${who}`, blamed };
    }
    if (!row.model) return { cycles: 0 };
    return { cycles: row.model.idle, why: row.model.cause || "", blamed: row.model.blamed };
  }

  brief(index) {
    const row = this.rows[index];
    return row ? `${row.operation || row.text.split(" ")[0]} at ${hex(index * 16)}` : "";
  }

  total(clock) {
    let cycles = 0;
    for (const block of this.blocks) cycles += block.weight * this.cycles(block, clock);
    return Math.round(cycles);
  }

  waited() {
    return this.blocks.reduce((sum, block) => sum + block.weight * (block.waited || 0), 0);
  }

  pipe(row) {
    return row.pipe === undefined ? "" : this.document.pipes[row.pipe];
  }
}

// The steps of one lane or warp are kept apart from the document: what `Code` shows does not depend on them.

const SASS = /(\b(?:UR|UP|R|P|B)(?:\d+|Z)\b|\b(?:URZ|UPT|RZ|PT)\b)|(\bc\[[^\]]*\]\[[^\]]*\])|(-?\b0x[0-9a-f]+\b|-?\b\d+(?:\.\d+)?(?:e[+-]?\d+)?\b)/g;

function sassHtml(text) {
  const parts = text.replace(/\s*;\s*$/, "").match(/^(@!?U?P\w+\s+)?(\S+)(.*)$/s);
  if (!parts) return escape(text);
  const [, guard = "", operation, rest] = parts;
  let out = "";
  let at = 0;
  for (const match of rest.matchAll(SASS)) {
    out += escape(rest.slice(at, match.index));
    const kind = match[1] ? "r" : "n";
    out += `<span class="${kind}">${escape(match[0])}</span>`;
    at = match.index + match[0].length;
  }
  out += escape(rest.slice(at));
  return `<span class="r">${escape(guard)}</span><span class="o">${escape(operation)}</span>${out}`;
}

const PTX = /(\/\/.*$)|(\.[A-Za-z_]\w*)|(%[A-Za-z_][\w$.]*)|(\b0[fdFD][0-9A-Fa-f]+\b|\b0x[0-9A-Fa-f]+\b|\b\d+(?:\.\d+)?\b)/g;

function ptxHtml(line) {
  let out = "";
  let at = 0;
  for (const match of line.matchAll(PTX)) {
    out += escape(line.slice(at, match.index));
    const kind = match[1] ? "c" : match[2] ? "k" : match[3] ? "r" : "n";
    out += `<span class="${kind}">${escape(match[0])}</span>`;
    at = match.index + match[0].length;
  }
  return out + escape(line.slice(at));
}

// A control word with what it has in the front and what it has not behind.
function controlHtml(text) {
  const fields = /^\[(B[^:]*):(R.):(W.):(.):(S\d+)(:P\d)?\]$/.exec(text);
  if (!fields) return escape(text);
  const [, waits, read, write, yields, stall] = fields;
  const mark = (field, kind) => (/[0-9Y]/.test(field) ? `<span class="${kind}">${field}</span>` : field);
  const wait = waits.replace(/[0-5]/g, (digit) => `<span class="bb">${digit}</span>`);
  const cycles = Number(stall.slice(1));
  return `${wait} ${mark(read, "bs")} ${mark(write, "bs")} ${yields} ${cycles > 1 ? `<b>${stall}</b>` : stall}`;
}
