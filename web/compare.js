// Two variants of a function: what differs in numbers, both codes side by side, and both timelines below each other.

// For each instruction of one code its counterpart in the other: the same text where there is one, otherwise the same operation from the
// same PTX line; the n-th such here belongs to the n-th there.
function counterparts(from, to) {
  const found = new Int32Array(from.rows.length).fill(-1);
  const taken = new Set();
  const keys = [(row) => row.text, (row) => (row.line ? `${row.line} ${row.operation}` : null)];
  for (const key of keys) {
    const places = new Map();
    to.rows.forEach((row, index) => {
      if (taken.has(index)) return;
      const name = key(row);
      if (!places.has(name)) places.set(name, []);
      places.get(name).push(index);
    });
    from.rows.forEach((row, index) => {
      const name = key(row);
      if (found[index] >= 0 || name === null) return;
      const at = places.get(name)?.shift();
      if (at === undefined) return;
      found[index] = at;
      taken.add(at);
    });
  }
  return found;
}

class Compare {
  constructor(root, events) {
    this.root = root;
    this.events = events;
  }

  show(pair, clock, names) {
    if (pair.length < 2 || !pair[1]) {
      this.root.innerHTML = `<div class="text" style="padding:10px 14px"><p>There is nothing to compare with. ${this.events.live ? "Write options (<code>-O1</code>), or <code>rescheduled</code>, into “compare with” and compile." : "<code>orias view FILE --compare WITH</code> puts a second variant into the page: options to compile by (<code>-O1</code>), another file, or <code>rescheduled</code>."}</p></div>`;
      this.lists = null;
      return;
    }
    const [a, b] = pair;
    const most = (code) => code.mostLive;
    const findings = (code) => code.fn.findings;
    const facts = [
      ["instructions", (code) => code.rows.length],
      ["registers of a thread", (code) => code.fn.registers],
      ["most live registers", most],
      ["cycles by control words, a loop eight times", (code) => code.total("words")],
      ["of them waiting for barriers", (code) => Math.round(code.waited())],
      ["cycles by dependences, a loop eight times", (code) => code.total("model")],
      ["findings", findings],
    ];
    const rows = facts.map(([name, of]) => {
      const [x, y] = [of(a) ?? 0, of(b) ?? 0];
      const change = x ? `${y > x ? "+" : ""}${(((y - x) / x) * 100).toFixed(1)} %` : "";
      return `<tr><td>${name}</td><td class="n">${x}</td><td class="n">${y}</td><td class="n ${y < x ? "okay" : y > x ? "warning" : ""}">${y === x ? "=" : change}</td></tr>`;
    });
    this.root.innerHTML = `<div style="padding:8px 14px"><table class="plain"><thead><tr><th></th><th>A: ${escape(names[0])}</th><th>B: ${escape(names[1])}</th><th>B against A</th></tr></thead><tbody>${rows.join("")}</tbody></table></div>
      <div class="charts"></div><div class="two"><div><h3>A: ${escape(names[0])}</h3><div class="list" data-side="0"></div></div><div><h3>B: ${escape(names[1])}</h3><div class="list" data-side="1"></div></div></div>`;
    const charts = $(".charts", this.root);
    this.timelines = [a, b].map((code, side) => {
      const place = document.createElement("div");
      place.style.cssText = "display:flex;flex-direction:column;height:230px";
      charts.append(place);
      const timeline = new Timeline(place, { tip: this.events.tip, chose: (index) => this.choose(side, index) }, "AB"[side]);
      timeline.show(code, 0, clock);
      return timeline;
    });
    this.links = [counterparts(a, b), counterparts(b, a)];
    this.pair = pair;
    this.lists = [...this.root.querySelectorAll(".list")];
    [a, b].forEach((code, side) => {
      const links = this.links[side];
      this.lists[side].innerHTML = code.rows
        .map((row, index) => `<div class="pair${links[index] < 0 ? " only" : ""}" data-at="${index}"><span>${code.issue(index, clock) ?? ""}</span><span>${sassHtml((row.text || "").replace(/^\[[^\]]*\]\s*/, ""))}</span></div>`)
        .join("");
      this.lists[side].addEventListener("click", (event) => {
        const row = event.target.closest(".pair");
        if (row) this.choose(side, Number(row.dataset.at));
      });
    });
  }

  choose(side, index) {
    if (!this.lists) return;
    const other = this.links[side][index];
    const places = side === 0 ? [index, other] : [other, index];
    places.forEach((at, which) => {
      const list = this.lists[which];
      for (const row of list.querySelectorAll(".chosen, .linked")) row.classList.remove("chosen", "linked");
      const row = list.children[at];
      if (!row) return;
      row.classList.add(which === side ? "chosen" : "linked");
      if (which !== side) list.scrollTop = row.offsetTop - list.offsetTop - list.clientHeight / 2;
      this.timelines[which].choose(at);
    });
  }
}
