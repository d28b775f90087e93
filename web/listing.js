// The instructions: a list box. Rows are made in chunks that the browser lays out only when they come into view, so that thousands cost
// little and a search in the page still finds them.

const CHUNK = 64;

class Listing {
  constructor(root, events) {
    this.root = root;
    this.events = events;
    this.code = null;
    this.chosen = -1;
    root.addEventListener("click", (event) => {
      const row = event.target.closest(".row, .finding");
      if (row) events.chose(Number(row.dataset.at));
    });
    root.addEventListener("mousemove", (event) => {
      const row = event.target.closest(".row");
      const at = row ? Number(row.dataset.at) : -1;
      events.hover(at, event, Boolean(event.target.closest(".w")));
    });
    root.addEventListener("mouseleave", () => events.hover(-1));
    root.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    if (!this.code || event.ctrlKey || event.metaKey || event.altKey) return;
    const last = this.code.rows.length - 1;
    const page = Math.max(1, Math.floor(this.root.clientHeight / 20) - 2);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -last, End: last };
    if (event.key in moves) {
      event.preventDefault();
      const from = this.chosen < 0 && moves[event.key] > 0 ? -1 : this.chosen;
      this.events.chose(Math.min(last, Math.max(0, from + moves[event.key])));
    } else if (event.key === "Enter") {
      event.preventDefault();
      this.events.enter(this.chosen);
    } else if (event.key === "d") {
      this.events.blame(this.chosen);
    }
  }

  show(code, clock) {
    this.code = code;
    this.clock = clock;
    const parts = [];
    let open = false;
    let inChunk = 0;
    let extra = 0;
    const flush = () => {
      if (!open) return;
      parts.push("</div>");
      open = false;
    };
    const heights = [];
    code.rows.forEach((row, index) => {
      if (inChunk === 0) {
        flush();
        parts.push(`<div class="chunk" role="presentation" data-chunk="${heights.length}">`);
        open = true;
        extra = 0;
      }
      const block = code.blocks[code.blockOf[index]];
      const label = code.labels.get(index);
      if (block && block.first === index) {
        parts.push(this.heading(block, label));
        extra += 26;
      } else if (label) {
        parts.push(`<div class="head" role="presentation"><b>${escape(label)}</b></div>`);
        extra += 26;
      }
      parts.push(this.row(row, index));
      for (const finding of row.findings || []) {
        parts.push(`<div class="finding" data-at="${index}" role="presentation">${escape(findingText(code, finding))}</div>`);
        extra += 22;
      }
      inChunk++;
      if (inChunk === CHUNK || index === code.rows.length - 1) {
        heights.push(inChunk * 20 + extra);
        inChunk = 0;
      }
    });
    flush();
    this.root.innerHTML = parts.join("");
    this.root.querySelectorAll(".chunk").forEach((chunk, at) => {
      chunk.style.containIntrinsicSize = `auto ${heights[at]}px`;
    });
    this.elements = [...this.root.querySelectorAll(".row")];
    this.marks = {};
    this.chosen = -1;
    this.root.removeAttribute("aria-activedescendant");
  }

  heading(block, label) {
    const parts = [`<b>${escape(label || block.name)}</b>`, plural(block.count, "instruction")];
    parts.push(`${this.code.cycles(block, this.clock)} cycles`);
    if (this.clock === "words" && block.waited) parts.push(`<span class="hot">${block.waited} of them waiting</span>`);
    if (block.depth) parts.push(`in ${plural(block.depth, "loop")}`);
    if (block.cold) parts.push("cold");
    if (block.conflicts) parts.push(plural(block.conflicts, "bank conflict"));
    return `<div class="head" role="presentation">${parts.join(" · ")}</div>`;
  }

  row(row, index) {
    const code = this.code;
    const issue = code.issue(index, this.clock);
    const stall = code.stall(index, this.clock);
    const bad = row.findings ? "●" : "";
    const name = code.pipe(row);
    const unit = row.pipe === undefined ? "" : `<span class="u" style="background:var(--p${row.pipe})" title="${escape(name)}"></span>`;
    const critical = this.clock === "model" && row.model?.critical ? " crit" : "";
    const live = row.live === undefined ? "" : `<span class="l" style="--f:${row.live / code.mostLive}">${row.live}</span>`;
    const waits = stall.cycles > 0 ? `+${stall.cycles}` : "";
    const text = row.text === undefined ? escape(row.error || "") : sassHtml(row.text.replace(/^\[[^\]]*\]\s*/, ""));
    return `<div class="row${critical}" role="option" id="i${index}" data-at="${index}" aria-selected="false" aria-label="${escape(this.spoken(index))}">` +
      `<span class="m">${bad}</span><span class="a">${hex(index * 16)}</span><span class="y">${issue ?? ""}</span>` +
      `<span class="w">${row.control ? controlHtml(row.control) : ""}</span><span class="t">${unit}${text}</span>` +
      `<span class="i">${waits}</span>${live}</div>`;
  }

  // What a screen reader says.
  spoken(index) {
    const row = this.code.rows[index];
    const issue = this.code.issue(index, this.clock);
    const stall = this.code.stall(index, this.clock);
    const parts = [row.text || row.error || ""];
    if (issue !== undefined) parts.push(`cycle ${issue}`);
    if (stall.cycles > 0) parts.push(`${stall.cycles} idle cycles before: ${stall.why}`);
    if (row.findings) parts.push(plural(row.findings.length, "finding"));
    if (row.live !== undefined) parts.push(`${plural(row.live, "live register")}`);
    if (row.line) parts.push(`PTX line ${row.line}`);
    return parts.join(", ");
  }

  mark(kind, indices) {
    if (!this.elements) return;
    for (const element of this.marks[kind] || []) element.classList.remove(kind);
    this.marks[kind] = indices.map((index) => this.elements[index]).filter(Boolean);
    for (const element of this.marks[kind]) element.classList.add(kind);
  }

  choose(index) {
    this.elements?.[this.chosen]?.setAttribute("aria-selected", "false");
    this.chosen = index;
    this.mark("chosen", index >= 0 ? [index] : []);
    const row = this.elements?.[index];
    if (!row) return;
    row.setAttribute("aria-selected", "true");
    this.root.setAttribute("aria-activedescendant", row.id);
  }

  reveal(index) {
    const row = this.elements?.[index];
    if (!row) return;
    // Its chunk may not have been laid out yet: where it will be is known well enough only once it is.
    const seen = () => {
      const box = row.getBoundingClientRect();
      const view = this.root.getBoundingClientRect();
      return box.height > 0 && box.top >= view.top + 10 && box.bottom <= view.bottom - 10;
    };
    if (!seen()) row.scrollIntoView({ block: "center" });
  }
}

function findingText(code, finding) {
  const earlier = finding.earlier === null || finding.earlier === undefined ? "" : `, after ${code.brief(finding.earlier)}`;
  const register = finding.register ? ` ${finding.register}` : "";
  return `${finding.check}${register}${earlier}: needs ${finding.needed}, found ${finding.found}`;
}
