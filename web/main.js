// The page: holds what is shown, and tells each part when something is chosen.

const given = JSON.parse($("#data").textContent);

const page = {
  documents: given.documents,
  variant: 0,
  number: 0,
  clock: "words",
  chosen: -1,
  codes: [],
  engine: null,
  cubin: null,
};

const listing = new Listing($("#listing"), {
  chose: (index) => choose(index),
  hover: (index, event, onControl) => hover(index, event, onControl),
  enter: (index) => {
    const line = page.code?.rows[index]?.line;
    if (line) source.go(line);
  },
  blame: (index) => {
    const row = page.code?.rows[index];
    if (!row) return;
    const blamed = page.code.stall(index, page.clock).blamed ?? row.depends?.[0]?.on;
    if (blamed !== undefined) choose(blamed);
  },
});

const source = new Source($("#source"), {
  chose: (line) => chooseLine(line),
  enter: (line) => {
    const first = page.code?.byLine.get(line)?.[0];
    if (first !== undefined) {
      choose(first);
      $("#listing").focus();
    }
  },
  hover: (line) => listing.mark("linked", (line && page.code?.byLine.get(line)) || linkedRows()),
  edited: () => {
    $("#sourcenote").textContent = "changed: compile to see its code";
  },
});

const timeline = new Timeline($("#timeline"), { chose: (index) => choose(index), tip: showTip });

const stepper = new Stepper($("#step"), {
  at: (index) => {
    if (index >= 0) choose(index);
    listing.mark("here", index >= 0 ? [index] : []);
    const line = page.code?.rows[index]?.line;
    source.mark("here", line ? [line] : []);
  },
  text: (index) => page.code?.rows[index]?.text || "",
  run: (launch, warp) => runKernel(launch, warp),
});

const compare = new Compare($("#compare"), { tip: showTip, live: Engine.isThere() });

function linkedRows() {
  const line = page.code?.rows[page.chosen]?.line;
  return line ? page.code.byLine.get(line) : [];
}

function showTip(html, event) {
  const tip = $("#tip");
  tip.hidden = !html;
  if (!html) return;
  tip.innerHTML = html;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
  tip.style.top = `${event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 18}px`;
}

function hover(index, event, onControl) {
  const row = page.code?.rows[index];
  if (!row) {
    showTip(null);
    source.mark("linked", chosenLines());
    return;
  }
  source.mark("linked", row.line ? [row.line] : []);
  if (onControl && row.explained) {
    showTip(`<code>${escape(row.control)}</code><br>${row.explained.map(escape).join("<br>")}`, event);
  } else showTip(null);
}

function chosenLines() {
  const line = page.code?.rows[page.chosen]?.line;
  return line ? [line] : [];
}

function choose(index, { reveal = true } = {}) {
  if (!page.code || index < 0 || index >= page.code.rows.length) return;
  page.chosen = index;
  const row = page.code.rows[index];
  listing.choose(index);
  listing.mark("linked", linkedRows());
  listing.mark("depends", (row.depends || []).map((one) => one.on));
  if (reveal) listing.reveal(index);
  source.mark("chosen", []);
  source.mark("linked", chosenLines());
  if (row.line) source.reveal(row.line);
  timeline.choose(index);
  $("#details").innerHTML = detailsHtml(page.code, index, page.clock);
}

function chooseLine(line) {
  source.mark("chosen", [line]);
  const rows = page.code?.byLine.get(line) || [];
  listing.mark("linked", rows);
  if (!rows.length) return;
  page.chosen = rows[0];
  listing.choose(rows[0]);
  listing.mark("linked", rows);
  listing.reveal(rows[0]);
  timeline.choose(rows[0]);
  $("#details").innerHTML = detailsHtml(page.code, rows[0], page.clock);
  $("#live").textContent = `line ${line}: ${plural(rows.length, "instruction")}`;
}

function nameOf(document) {
  const parts = [document.name];
  if (document.options) parts.push(document.options);
  if (document.rescheduled) parts.push("rescheduled");
  return parts.join(" ");
}

// Shows a function of a variant.
function showFunction() {
  const document_ = page.documents[page.variant];
  if (!document_) return;
  page.codes = document_.functions.map((fn) => new Code(document_, fn));
  page.number = Math.max(0, Math.min(page.number, page.codes.length - 1));
  const code = page.codes[page.number];
  page.code = code;
  document.body.classList.toggle("nosource", !document_.ptx && !page.engine);
  $("#subject").textContent = [document_.name, document_.target].filter(Boolean).join(" · ");
  $("#function").innerHTML = page.codes.map((one, at) => `<option value="${at}">${escape(one.fn.name)}</option>`).join("");
  $("#function").value = String(page.number);
  $("#variants").hidden = page.documents.length < 2;
  if (page.documents.length > 1) page.documents.forEach((one, at) => {
    $(`#variant${at}`).textContent = "AB"[at];
    $(`#variant${at}`).title = nameOf(one);
  });
  source.show(document_.ptx || "", Boolean(page.engine) && !page.cubin);
  $("#sourcenote").textContent = "";
  const messages = document_.messages || [];
  source.annotate(code, messages);
  showMessages(messages);
  const findings = page.codes.reduce((sum, one) => sum + one.fn.findings, 0);
  const count = $("#tab-findings .count");
  count.textContent = findings ? String(findings) : "";
  count.classList.toggle("bad", findings > 0);
  $("#findings").className = "text";
  $("#findings").innerHTML = findingsHtml(page.codes);
  if (!code) {
    $("#listing").innerHTML = '<p class="head">There is no function in this module.</p>';
    $("#summary").textContent = "";
    $("#details").innerHTML = "";
    return;
  }
  const clock = page.clock;
  listing.show(code, clock);
  timeline.show(code, 0, clock);
  const parts = [`<b>${code.rows.length}</b> instructions`];
  if (code.fn.registers) parts.push(`<b>${code.fn.registers}</b> registers`);
  if (code.fn.stack) parts.push(`<b>${code.fn.stack}</b> bytes of stack`);
  if (code.fn.shared) parts.push(`<b>${code.fn.shared}</b> bytes shared`);
  parts.push(`<b>${code.total(clock)}</b> cycles`);
  $("#summary").innerHTML = parts.join(" · ");
  $("#summary").title = "Cycles of one warp alone; what is in a loop counts eight times";
  page.compared = false;
  if (!$("#compare").hidden) showComparison();
  choose(0);
}

// Puts the two variants side by side, when somebody looks.
function showComparison() {
  if (page.compared || !page.code) return;
  page.compared = true;
  const others = page.documents.map((one) => {
    const same = one.functions.find((fn) => fn.name === page.code.fn.name) || one.functions[page.number];
    return same ? new Code(one, same) : null;
  });
  compare.show(others.length > 1 ? others : [], page.clock, page.documents.map(nameOf));
}

function showMessages(messages) {
  $("#messages").className = "text";
  $("#messages").innerHTML = messagesHtml(messages);
  const loud = messages.filter((one) => one.severity !== "info").length;
  $("#tab-messages .count").textContent = loud ? String(loud) : "";
  $("#tab-messages .count").classList.toggle("bad", messages.some((one) => one.severity === "error"));
}

// Views below: tabs as WAI-ARIA has them.
const tabs = [...document.querySelectorAll("[role=tab]")];
function openTab(tab) {
  for (const one of tabs) {
    const on = one === tab;
    one.setAttribute("aria-selected", String(on));
    one.tabIndex = on ? 0 : -1;
    $("#" + one.getAttribute("aria-controls")).hidden = !on;
  }
  if (tab.id === "tab-timeline") timeline.resize();
  if (tab.id === "tab-compare") showComparison();
}
tabs.forEach((tab, at) => {
  tab.addEventListener("click", () => openTab(tab));
  tab.addEventListener("keydown", (event) => {
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!move) return;
    const next = tabs[(at + move + tabs.length) % tabs.length];
    openTab(next);
    next.focus();
  });
});

document.addEventListener("keydown", (event) => {
  const number = Number(event.key) - 1;
  if (event.altKey && tabs[number]) {
    event.preventDefault();
    openTab(tabs[number]);
    tabs[number].focus();
  }
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && page.engine) {
    event.preventDefault();
    compileNow();
  }
});

document.addEventListener("click", (event) => {
  const go = event.target.closest(".go");
  if (!go) return;
  if (go.dataset.line) return source.go(Number(go.dataset.line));
  if (go.dataset.function !== undefined && Number(go.dataset.function) !== page.number) {
    page.number = Number(go.dataset.function);
    showFunction();
  }
  choose(Number(go.dataset.go));
});

$("#function").addEventListener("change", (event) => {
  page.number = Number(event.target.value);
  showFunction();
});
for (const radio of document.querySelectorAll("[name=clock]")) {
  radio.addEventListener("change", () => {
    const chosen = page.chosen;
    page.clock = radio.value;
    showFunction();
    choose(chosen);
  });
}
for (const radio of document.querySelectorAll("[name=variant]")) {
  radio.addEventListener("change", () => {
    page.variant = Number(radio.value);
    showFunction();
  });
}
$("#help").addEventListener("click", () => $("#legend").showModal());
$("#theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  timeline.draw();
  compare.timelines?.forEach((one) => one.draw());
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => timeline.draw());

// What the engine makes possible: compiling what is typed, comparing, running.
function subject() {
  return page.cubin ? { cubin: page.cubin.letters, name: page.cubin.name } : { ptx: source.field.value, name: page.name || "input.ptx" };
}

async function compileNow() {
  const options = page.cubin ? "" : $("#options").value.trim();
  const first = await page.engine.call({ do: "inspect", ...subject(), options });
  if (!first.ok) return showRefusal(first);
  const documents = [first.document];
  const against = $("#against").value.trim();
  if (against) {
    const other = against === "rescheduled" ? { options, reschedule: true } : { options: against };
    const second = await page.engine.call({ do: "inspect", ...subject(), ...other });
    if (!second.ok) return showRefusal(second);
    documents.push(second.document);
  }
  page.documents = documents;
  page.variant = 0;
  $("[name=variant][value='0']").checked = true;
  showFunction();
  stepper.show(null);
  $("#live").textContent = `compiled: ${plural(page.code?.rows.length ?? 0, "instruction")}`;
}

function showRefusal(answer) {
  const messages = answer.messages || [{ severity: "error", text: answer.error }];
  showMessages(messages);
  source.annotate(null, messages);
  openTab($("#tab-messages"));
  $("#sourcenote").textContent = "does not compile";
  $("#live").textContent = answer.error || "";
}

async function runKernel(launch, warp) {
  const options = page.cubin ? "" : $("#options").value.trim();
  const words = page.codes.length > 1 && !/--kernel/.test(launch) ? `--kernel ${page.code.fn.name} ${launch}` : launch;
  const answer = await page.engine.call({ do: "trace", ...subject(), options, launch: words, warp });
  stepper.show(answer.ok ? answer.trace : null, answer.error);
}

function takeExample(example) {
  page.cubin = null;
  page.name = example.name.split(":")[0] + ".ptx";
  source.show(example.ptx, true);
  stepper.launch.launch.value = example.launch;
  return compileNow();
}

async function begin() {
  if (Engine.isThere()) {
    page.engine = await Engine.start();
    $("#tools").hidden = false;
    stepper.launch.hidden = false;
    stepper.show(null);
    const examples = given.examples || [];
    $("#example").innerHTML = examples.map((one, at) => `<option value="${at}">${escape(one.name)}</option>`).join("");
    $("#example").addEventListener("change", (event) => takeExample(examples[Number(event.target.value)]));
    $("#tools").addEventListener("submit", (event) => {
      event.preventDefault();
      compileNow();
    });
    const knobs = await page.engine.call({ do: "knobs" });
    $("#knobs").innerHTML = (knobs.knobs || []).map((one) => `<option value="--knob ${escape(one.name)}=${escape(one.default)}">${escape(one.about)}</option>`).join("");
    $("#open").addEventListener("change", async (event) => {
      const file = event.target.files[0];
      if (!file) return;
      const bytes = new Uint8Array(await file.arrayBuffer());
      page.name = file.name;
      if (bytes[0] === 0x7f && bytes[1] === 0x45) {
        let letters = "";
        for (const byte of bytes) letters += String.fromCharCode(byte);
        page.cubin = { name: file.name, letters: btoa(letters) };
      } else {
        page.cubin = null;
        source.show(new TextDecoder().decode(bytes), true);
      }
      await compileNow();
    });
    if (examples.length) await takeExample(examples[0]);
  } else {
    showFunction();
    if (given.trace) {
      const kernel = page.codes.findIndex((one) => one.fn.name === given.trace.kernel);
      if (kernel > 0) {
        page.number = kernel;
        showFunction();
      }
      stepper.show(given.trace);
    }
  }
  document.documentElement.dataset.ready = "true";
}

begin();
