// The timeline of a block: cycles from left to right, a track each for live registers, issue, the units and the barriers. Drawn on a
// canvas of the size of what is in view, whatever the block's length.

const LABELS = 92;
const RULER = 20;
const AREA = 46;
const TRACK = 17;

class Timeline {
  constructor(root, events, title = "") {
    this.events = events;
    this.code = null;
    this.block = -1;
    this.scale = 8;
    this.chosen = -1;
    root.insertAdjacentHTML("beforeend", `
      <div class="strip"><b>${escape(title)}</b>
        <label>block <select></select></label>
        <button type="button" data-do="before" aria-label="The block before">‹</button><button type="button" data-do="behind" aria-label="The block behind">›</button>
        <button type="button" data-do="out" aria-label="Farther">−</button><button type="button" data-do="in" aria-label="Nearer">+</button><button type="button" data-do="fit">fit</button>
        <span class="facts"></span></div>
      <div class="chart" tabindex="0" role="group"><div class="room"><canvas role="img"></canvas></div></div>`);
    this.strip = root.lastElementChild.previousElementSibling;
    this.chart = root.lastElementChild;
    this.room = $(".room", this.chart);
    this.canvas = $("canvas", this.chart);
    this.select = $("select", this.strip);
    this.select.addEventListener("change", () => this.show(this.code, Number(this.select.value), this.clock));
    this.strip.addEventListener("click", (event) => {
      const action = event.target.dataset?.do;
      if (action) this.act(action);
    });
    this.chart.addEventListener("scroll", () => this.draw());
    this.chart.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("mousemove", (event) => events.tip(this.told(event), event));
    this.canvas.addEventListener("mouseleave", () => events.tip(null));
    this.canvas.addEventListener("click", (event) => {
      const hit = this.hit(event);
      if (hit !== null) events.chose(hit);
    });
    this.chart.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 1.25 : 0.8, event.clientX - this.chart.getBoundingClientRect().left);
    }, { passive: false });
    new ResizeObserver(() => this.resize()).observe(this.chart);
  }

  key(event) {
    const actions = { "+": "in", "=": "in", "-": "out", 0: "fit" };
    if (event.key in actions) this.act(actions[event.key]);
    else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      const step = event.key === "ArrowRight" ? 1 : -1;
      const at = this.chosen < 0 ? this.first() : this.chosen + step;
      this.events.chose(Math.max(0, Math.min(this.code.rows.length - 1, at)));
    } else return;
    event.preventDefault();
  }

  act(action) {
    if (!this.code) return;
    if (action === "in") this.zoom(1.5);
    else if (action === "out") this.zoom(1 / 1.5);
    else if (action === "fit") this.fit();
    else {
      const next = this.block + (action === "behind" ? 1 : -1);
      if (next >= 0 && next < this.code.blocks.length) this.show(this.code, next, this.clock);
    }
  }

  first() {
    return this.code.blocks[this.block]?.first ?? 0;
  }

  zoom(factor, at = LABELS) {
    const cycle = (this.chart.scrollLeft + at - LABELS) / this.scale;
    this.scale = Math.max(0.02, Math.min(40, this.scale * factor));
    this.layout();
    this.chart.scrollLeft = cycle * this.scale - at + LABELS;
    this.draw();
  }

  fit() {
    this.scale = Math.max(0.02, Math.min(24, (this.chart.clientWidth - LABELS - 24) / Math.max(1, this.end)));
    this.layout();
    this.draw();
  }

  // Shows a block of a function.
  show(code, block, clock) {
    const other = code !== this.code;
    const fresh = other || block !== this.block || clock !== this.clock;
    this.code = code;
    this.clock = clock;
    this.block = Math.max(0, Math.min(block, code.blocks.length - 1));
    if (other) {
      this.select.innerHTML = code.blocks
        .map((one, at) => `<option value="${at}">${escape(code.labels.get(one.first) || one.name)}${one.depth ? ", loop" : ""} (${code.cycles(one, clock)} cycles)</option>`)
        .join("");
    }
    this.select.value = String(this.block);
    if (!fresh) return;
    this.gather();
    this.fit();
    this.chart.scrollLeft = 0;
  }

  // The bars of the block.
  gather() {
    const { code, clock } = this;
    const block = code.blocks[this.block];
    this.bars = [];
    this.tracks = [];
    this.waits = [];
    this.live = [];
    this.end = 1;
    const facts = $(".facts", this.strip);
    if (!block) {
      facts.textContent = code.fn.notes?.join(" ") || "no timeline";
      return;
    }
    const words = clock === "words" && block.words !== undefined;
    const length = code.cycles(block, clock);
    const pipes = new Set();
    const barriers = new Set();
    for (let index = block.first; index < block.first + block.count; index++) {
      const row = code.rows[index];
      if (row.pipe !== undefined) pipes.add(row.pipe);
      if (words) for (const hold of row.words?.holds || []) barriers.add(hold[0]);
      for (const barrier of words ? row.waits || [] : []) barriers.add(barrier);
    }
    (words ? block.entry || [] : []).forEach((until, barrier) => until > 0 && barriers.add(barrier));
    const order = (set) => [...set].sort((a, b) => a - b);
    this.tracks.push({ kind: "issue", name: "issue" });
    for (const pipe of order(pipes)) this.tracks.push({ kind: "pipe", pipe, name: code.document.pipes[pipe] });
    for (const barrier of order(barriers)) this.tracks.push({ kind: "barrier", barrier, name: `barrier ${barrier}` });
    const trackOf = (kind, number) =>
      this.tracks.findIndex((track) => track.kind === kind && (number === undefined || track[kind] === number));
    let before = 0;
    for (let index = block.first; index < block.first + block.count; index++) {
      const row = code.rows[index];
      const at = code.issue(index, clock) ?? before;
      const stall = code.stall(index, clock);
      if (stall.cycles > 0) this.waits.push({ from: at - stall.cycles, to: at, index });
      const keeps = row.model?.keeps || 1;
      const latency = row.model?.latency || 1;
      this.bars.push({ track: 0, from: at, to: at + 1, index, solid: true, pipe: row.pipe });
      const track = trackOf("pipe", row.pipe);
      this.bars.push({ track, from: at, to: at + Math.max(keeps, latency), index, solid: false, pipe: row.pipe });
      this.bars.push({ track, from: at, to: at + Math.max(1, keeps), index, solid: true, pipe: row.pipe });
      this.end = Math.max(this.end, at + Math.max(keeps, latency, 1));
      for (const [barrier, writes, until] of (words && row.words?.holds) || []) {
        this.bars.push({ track: trackOf("barrier", barrier), from: at, to: until, index, solid: writes, held: true, pipe: row.pipe });
        this.end = Math.max(this.end, until);
      }
      if (row.live !== undefined) this.live.push([at, row.live]);
      before = at;
    }
    (words ? block.entry || [] : []).forEach((until, barrier) => {
      if (until > 0) this.bars.push({ track: trackOf("barrier", barrier), from: 0, to: until, index: -1, solid: false, held: true });
      this.end = Math.max(this.end, until);
    });
    this.end = Math.max(this.end, length);
    this.length = length;
    const idle = this.waits.reduce((sum, wait) => sum + wait.to - wait.from, 0);
    const busiest = order(pipes)
      .map((pipe) => [code.document.pipes[pipe], this.bars.filter((bar) => bar.solid && !bar.held && bar.track > 0 && bar.pipe === pipe).length])
      .sort((a, b) => b[1] - a[1])
      .slice(0, 3)
      .map(([name, count]) => `${name} ${count}`)
      .join(", ");
    facts.innerHTML = `<b>${length}</b> cycles, <b>${block.count}</b> issued, <b>${idle}</b> idle · ${escape(busiest)}`;
    const most = Math.max(0, ...this.live.map(([, live]) => live));
    this.most = most;
    this.canvas.setAttribute("aria-label",
      `Timeline of ${block.name}: ${length} cycles, ${plural(block.count, "instruction")}, ${idle} cycles idle, at most ${plural(most, "live register")}. The list of instructions has the same by instruction.`);
    this.chart.setAttribute("aria-label", "Timeline; left and right choose instructions");
  }

  layout() {
    this.height = RULER + AREA + this.tracks.length * TRACK + 10;
    this.room.style.width = `${Math.ceil(LABELS + this.end * this.scale + 24)}px`;
    this.room.style.height = `${this.height}px`;
  }

  resize() {
    this.draw();
  }

  choose(index) {
    this.chosen = index;
    if (!this.code || index < 0) return;
    const block = this.code.blockOf[index];
    if (block >= 0 && block !== this.block) this.show(this.code, block, this.clock);
    const at = this.code.issue(index, this.clock);
    if (at !== undefined && this.chart.clientWidth) {
      const x = LABELS + at * this.scale;
      const left = this.chart.scrollLeft;
      if (x < left + LABELS || x > left + this.chart.clientWidth - 60) {
        this.chart.scrollLeft = Math.max(0, x - this.chart.clientWidth / 2);
      }
    }
    this.draw();
  }

  top(track) {
    return RULER + AREA + track * TRACK;
  }

  draw() {
    if (!this.code || !this.bars || !this.chart.clientWidth) return;
    const width = this.chart.clientWidth;
    if (!this.width) {
      // It was laid out while it could not be seen.
      this.width = width;
      return this.fit();
    }
    const height = Math.max(this.chart.clientHeight, this.height);
    const ratio = window.devicePixelRatio || 1;
    this.width = width;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const colours = { ink: colour("ink"), dim: colour("dim"), faint: colour("faint"), line: colour("line"), soft: colour("soft"), pane: colour("pane"), wait: colour("wait"), accent: colour("accent") };
    const pipes = [...Array(10).keys()].map((at) => colour(`p${at}`));
    const g = this.canvas.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, width, height);
    const left = this.chart.scrollLeft;
    const scale = this.scale;
    const x = (cycle) => LABELS + cycle * scale - left;
    const from = Math.max(0, (left - 4) / scale);
    const to = (left + width) / scale;
    g.font = "11px system-ui,sans-serif";
    g.textBaseline = "middle";

    // Rows and the ruler.
    this.tracks.forEach((track, at) => {
      if (at % 2 === 0) {
        g.fillStyle = colours.soft;
        g.fillRect(0, this.top(at), width, TRACK);
      }
    });
    const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000].find((one) => one * scale >= 56) || 20000;
    g.fillStyle = colours.dim;
    g.strokeStyle = colours.line;
    g.lineWidth = 1;
    for (let cycle = Math.floor(from / step) * step; cycle <= to; cycle += step) {
      const at = Math.round(x(cycle)) + 0.5;
      g.beginPath();
      g.moveTo(at, RULER - 4);
      g.lineTo(at, this.height);
      g.stroke();
      g.fillText(String(cycle), at + 3, RULER / 2);
    }

    // Cycles in which the warp waits.
    for (const wait of this.waits) {
      if (wait.to < from || wait.from > to) continue;
      const [a, b] = [Math.max(LABELS, x(wait.from)), Math.min(width, x(wait.to))];
      g.save();
      g.beginPath();
      g.rect(a, this.top(0), b - a, TRACK);
      g.clip();
      g.globalAlpha = 0.16;
      g.fillStyle = colours.wait;
      g.fillRect(a, this.top(0), b - a, TRACK);
      g.globalAlpha = 0.7;
      g.strokeStyle = colours.wait;
      for (let at = a - TRACK; at < b; at += 6) {
        g.beginPath();
        g.moveTo(at, this.top(0) + TRACK);
        g.lineTo(at + TRACK, this.top(0));
        g.stroke();
      }
      g.restore();
    }

    // Live registers, as steps.
    if (this.live.length) {
      const y = (live) => RULER + AREA - 4 - (live / Math.max(1, this.code.mostLive)) * (AREA - 12);
      g.beginPath();
      g.moveTo(x(this.live[0][0]), RULER + AREA - 4);
      this.live.forEach(([at, live], index) => {
        const next = this.live[index + 1]?.[0] ?? this.length;
        g.lineTo(x(at), y(live));
        g.lineTo(x(next), y(live));
      });
      g.lineTo(x(this.length), RULER + AREA - 4);
      g.closePath();
      g.globalAlpha = 0.25;
      g.fillStyle = pipes[0];
      g.fill();
      g.globalAlpha = 1;
      g.strokeStyle = pipes[0];
      g.stroke();
    }

    // Bars: light ones below dark ones.
    const drawn = (bar) => {
      if (bar.to < from || bar.from > to || bar.track < 0) return;
      const a = x(bar.from);
      const b = Math.max(a + 1, x(bar.to) - (scale > 6 ? 1 : 0));
      const top = this.top(bar.track) + 3;
      const tall = TRACK - 6;
      g.fillStyle = bar.index < 0 ? colours.faint : pipes[bar.pipe ?? 6];
      g.globalAlpha = bar.held ? (bar.solid ? 0.55 : 0.3) : bar.solid ? 1 : 0.22;
      g.fillRect(a, top, b - a, tall);
      if (bar.held && bar.index >= 0) {
        g.globalAlpha = 1;
        g.fillRect(a, top, Math.min(2, b - a), tall);
      }
      g.globalAlpha = 1;
    };
    this.bars.filter((bar) => !bar.solid).forEach(drawn);
    this.bars.filter((bar) => bar.solid).forEach(drawn);

    // The chosen instruction, and what it waited for.
    if (this.chosen >= 0 && this.code.blockOf[this.chosen] === this.block) {
      const at = this.code.issue(this.chosen, this.clock);
      g.strokeStyle = colours.ink;
      g.lineWidth = 1.5;
      for (const bar of this.bars) {
        if (bar.index === this.chosen && bar.track >= 0) {
          g.strokeRect(x(bar.from) - 0.5, this.top(bar.track) + 2, Math.max(3, (bar.to - bar.from) * scale), TRACK - 4);
        }
      }
      g.setLineDash([3, 3]);
      g.beginPath();
      g.moveTo(x(at) + 0.5, RULER);
      g.lineTo(x(at) + 0.5, this.height);
      g.stroke();
      g.setLineDash([]);
      const blamed = this.code.stall(this.chosen, this.clock).blamed;
      if (blamed !== undefined && this.code.blockOf[blamed] === this.block) {
        const start = x(this.code.issue(blamed, this.clock));
        g.strokeStyle = colours.wait;
        g.beginPath();
        g.moveTo(start + 2, this.top(0) + TRACK / 2);
        g.bezierCurveTo(start + 2, this.top(0) - 16, x(at), this.top(0) - 16, x(at), this.top(0) + 2);
        g.stroke();
      }
    }

    // Names, over what scrolls below them.
    g.fillStyle = colours.pane;
    g.fillRect(0, 0, LABELS - 4, height);
    g.fillStyle = colours.dim;
    g.textAlign = "right";
    g.fillText("cycle", LABELS - 10, RULER / 2);
    g.fillText(`registers ${this.most ?? 0}`, LABELS - 10, RULER + AREA / 2);
    this.tracks.forEach((track, at) => {
      g.fillStyle = track.kind === "pipe" ? pipes[track.pipe] : colours.dim;
      g.fillText(track.name, LABELS - 10, this.top(at) + TRACK / 2);
    });
    g.textAlign = "left";
  }

  // The instruction at a place of the canvas.
  hit(event) {
    const box = this.canvas.getBoundingClientRect();
    const track = Math.floor((event.clientY - box.top - RULER - AREA) / TRACK);
    const cycle = (event.clientX - box.left - LABELS + this.chart.scrollLeft) / this.scale;
    const slack = 3 / this.scale;
    let best = null;
    for (const bar of this.bars || []) {
      if (bar.track !== track || bar.index < 0 || cycle < bar.from - slack || cycle > bar.to + slack) continue;
      if (!best || (bar.solid && !best.solid) || (bar.solid === best.solid && bar.from > best.from)) best = bar;
    }
    if (!best && track === 0) {
      const wait = (this.waits || []).find((one) => cycle >= one.from && cycle < one.to);
      if (wait) return wait.index;
    }
    return best ? best.index : null;
  }

  told(event) {
    const index = this.hit(event);
    if (index === null) return null;
    const row = this.code.rows[index];
    const stall = this.code.stall(index, this.clock);
    const parts = [`<code>${sassHtml(row.text || "")}</code>`, `cycle ${this.code.issue(index, this.clock)}, ${escape(this.code.pipe(row))}, result after ${row.model?.latency ?? 0} cycles`];
    if (stall.cycles > 0) parts.push(`<span class="bad">${stall.cycles} idle cycles before: ${escape(stall.why)}</span>`);
    return parts.join("<br>");
  }
}
