// One warp in the emulator, step by step: which lanes run, and what every register holds in every lane.

class Stepper {
  constructor(root, events) {
    this.root = root;
    this.events = events;
    this.trace = null;
    this.at = 0;
    this.lane = -1;
    this.form = "hex";
    root.innerHTML = `
      <form class="strip launch" hidden><label style="flex:1;display:flex;gap:6px">launch <input name="launch" style="flex:1;font-family:var(--mono);font-size:12px" spellcheck="false" aria-label="Launch: options and arguments as for orias run"></label>
        <label>warp <input name="warp" type="number" min="0" value="0" style="width:5em"></label><button type="submit" class="main">Run</button></form>
      <div class="strip controls"><button type="button" data-do="first" aria-label="First step">|◀</button><button type="button" data-do="back" aria-label="Step back">‹</button><button type="button" data-do="forth" aria-label="Step forth">›</button><button type="button" data-do="last" aria-label="Last step">▶|</button>
        <input type="range" min="0" value="0" aria-label="Step" style="flex:1;min-width:8em">
        <span class="now"></span>
        <label>values <select><option value="hex">bits</option><option value="int">integers</option><option value="float">single precision</option></select></label></div>
      <div class="strip told" aria-live="polite"></div>
      <div class="chart" tabindex="0" aria-label="Registers by lane; left and right step"></div>`;
    this.launch = $(".launch", root);
    this.range = $("input[type=range]", root);
    this.table = $(".chart", root);
    $(".controls", root).addEventListener("click", (event) => {
      const action = event.target.dataset?.do;
      if (action) this.act(action);
    });
    this.range.addEventListener("input", () => this.go(Number(this.range.value)));
    $("select", root).addEventListener("change", (event) => {
      this.form = event.target.value;
      this.draw();
    });
    this.table.addEventListener("keydown", (event) => {
      const actions = { ArrowRight: "forth", ArrowLeft: "back", Home: "first", End: "last" };
      if (!(event.key in actions)) return;
      event.preventDefault();
      this.act(actions[event.key]);
    });
    this.table.addEventListener("click", (event) => {
      const lane = event.target.closest("[data-lane]")?.dataset.lane;
      if (lane === undefined) return;
      this.lane = this.lane === Number(lane) ? -1 : Number(lane);
      this.draw();
      this.table.querySelector(`thead [data-lane="${lane}"]`)?.focus();
    });
    this.launch.addEventListener("submit", (event) => {
      event.preventDefault();
      events.run(this.launch.launch.value, Number(this.launch.warp.value) || 0);
    });
    this.show(null);
  }

  act(action) {
    if (!this.trace) return;
    const last = this.trace.steps.length;
    const to = { first: 0, back: this.at - 1, forth: this.at + 1, last }[action];
    this.go(Math.max(0, Math.min(last, to)));
  }

  show(trace, error) {
    this.trace = trace;
    this.range.max = trace ? trace.steps.length : 0;
    this.at = 0;
    if (!trace) {
      $(".told", this.root).innerHTML = error
        ? `<span class="bad" style="white-space:pre-wrap">${escape(error)}</span>`
        : this.launch.hidden
          ? "This page was made without a run: <code>orias view FILE --run \"--block 32 …\"</code> puts one in."
          : "Run the kernel to step through it.";
      this.table.innerHTML = "";
      $(".now", this.root).textContent = "";
      return;
    }
    this.go(0);
  }

  // The registers before step `at`: all changes up to there, from the start.
  state(at) {
    const registers = new Map();
    const fresh = new Map();
    for (let step = 0; step < at; step++) {
      const last = step === at - 1;
      for (const [name, lanes, values] of this.trace.steps[step][4]) {
        if (!registers.has(name)) registers.set(name, new Uint32Array(32));
        const register = registers.get(name);
        let next = 0;
        for (let lane = 0; lane < 32; lane++) {
          if ((lanes >>> lane) & 1) {
            register[lane] = Array.isArray(values) ? values.length === 1 ? values[0] : values[next++] : values;
          }
        }
        if (last) fresh.set(name, lanes);
      }
    }
    return { registers, fresh };
  }

  go(at) {
    this.at = at;
    this.range.value = at;
    this.draw();
    const next = this.trace.steps[at];
    this.events.at(next ? next[0] : -1);
  }

  value(name, word) {
    if (/^U?P/.test(name)) return word ? "1" : "0";
    if (this.form === "int") return String(word | 0);
    if (this.form === "float") {
      const number = new Float32Array(new Uint32Array([word]).buffer)[0];
      return Number.isInteger(number) ? String(number) : number.toPrecision(5);
    }
    return word.toString(16).padStart(8, "0");
  }

  draw() {
    const trace = this.trace;
    if (!trace) return;
    const last = trace.steps.length;
    $(".now", this.root).textContent = `${this.at} of ${last}${trace.cut ? "+" : ""}`;
    const next = trace.steps[this.at];
    const lanes = next ? next[1] >>> 0 : 0;
    const active = next ? next[2] >>> 0 : 0;
    const count = (mask) => mask.toString(2).replace(/0/g, "").length;
    let told;
    if (next) {
      told = `next: <code>${sassHtml(this.events.text(next[0]))}</code> <span>in ${count(lanes)} lanes${active !== lanes ? `, guard true in ${count(active)}` : ""}${next[3] ? `, cycle ${next[3]}` : ""}</span>`;
    } else if (trace.fault) {
      told = `<span class="bad">${escape(trace.fault)}</span>`;
    } else if (trace.cut) {
      told = `<span class="warning">The warp goes on; only ${last} steps are kept.</span>`;
    } else {
      told = `<span class="okay">The warp has ended.</span>`;
    }
    if (!next) {
      for (const buffer of trace.buffers) {
        told += ` <span>argument ${buffer.argument}: <code>${escape(buffer.type)}[${buffer.count}] ${escape(buffer.values.slice(0, 12).join(" "))}${buffer.count > 12 ? " …" : ""}</code></span>`;
      }
      if (trace.printed) told += ` <span>printed: <code>${escape(trace.printed)}</code></span>`;
    }
    for (const one of trace.found || []) told += ` <span class="warning">${escape(one)}</span>`;
    $(".told", this.root).innerHTML = told;
    const { registers, fresh } = this.state(this.at);
    const key = (name) => {
      const parts = /^(U?[RP])(\d+)/.exec(name);
      return parts ? ["R", "P", "UR", "UP"].indexOf(parts[1]) * 1000 + Number(parts[2]) : 9999;
    };
    const names = [...registers.keys()].sort((a, b) => key(a) - key(b));
    const shown = this.lane >= 0 ? [this.lane] : [...Array(32).keys()];
    const head = shown.map((lane) => `<th scope="col" class="${(active >>> lane) & 1 ? "on" : (lanes >>> lane) & 1 ? "" : "no"}"><button data-lane="${lane}" aria-pressed="${this.lane === lane}" aria-label="Lane ${lane}${(active >>> lane) & 1 ? ", runs" : ""}">${lane}</button></th>`);
    const forms = this.lane >= 0 ? "<th>integer</th><th>single precision</th>" : "";
    const rows = names.map((name) => {
      const register = registers.get(name);
      const changed = fresh.get(name) || 0;
      const shared = name.startsWith("U");
      if (shared && this.lane < 0) {
        return `<tr><th scope="row">${name}</th><td class="${changed ? "new" : ""}">${this.value(name, register[0])}</td><td colspan="31" class="no" style="text-align:left">all lanes</td></tr>`;
      }
      const cells = shown.map((lane) => {
        const classes = (changed >>> lane) & 1 ? "new" : (lanes >>> lane) & 1 || !next ? "" : "off";
        return `<td class="${classes}">${this.value(name, register[lane])}</td>`;
      });
      const word = register[Math.max(0, this.lane)];
      const float = new Float32Array(new Uint32Array([word]).buffer)[0];
      const more = this.lane >= 0 ? `<td>${word | 0}</td><td>${float}</td>` : "";
      return `<tr><th scope="row">${name}</th>${cells.join("")}${more}</tr>`;
    });
    this.table.innerHTML = `<table class="lanes"><thead><tr><th scope="col">lane</th>${head.join("")}${forms}</tr></thead><tbody>${rows.join("")}</tbody></table>`;
  }
}
