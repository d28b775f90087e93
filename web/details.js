// What is known about the chosen instruction, the list of findings, and messages.

function detailsHtml(code, index, clock) {
  const row = code.rows[index];
  if (!row) return '<div class="body"><p>Choose an instruction, or a line of the PTX.</p></div>';
  const parts = [`<h3>${sassHtml(row.text || row.error || "")}</h3>`];
  const go = (at) => `<button class="go" data-go="${at}">${escape(code.brief(at))}</button>`;
  const where = [hex(index * 16)];
  const issue = code.issue(index, clock);
  if (issue !== undefined) where.push(`cycle ${issue}`);
  if (row.pipe !== undefined) where.push(code.pipe(row));
  if (row.line) where.push(`PTX line ${row.line}`);
  if (row.source) where.push(escape(row.source));
  parts.push(`<p class="d">${where.join(" · ")}</p>`);
  for (const finding of row.findings || []) parts.push(`<p class="bad">● ${escape(findingText(code, finding))}</p>`);
  const stall = code.stall(index, clock);
  if (stall.cycles > 0) {
    parts.push("<h4>Why not earlier</h4>", `<p>${plural(stall.cycles, "cycle")} idle: ${escape(stall.why)}. ${stall.blamed === undefined ? "" : go(stall.blamed)}</p>`);
  }
  if (row.control) {
    parts.push("<h4>Control word</h4>", `<div class="fields"><span>${escape(row.control)}</span></div>`);
    parts.push(`<ul>${(row.explained || []).map((one) => `<li>${escape(one)}</li>`).join("")}</ul>`);
  }
  if (row.depends) {
    const shown = row.depends.map((one) =>
      `<li class="${one.met ? "" : "bad"}">${escape(one.hazard)} <code>${escape(one.register)}</code> of ${go(one.on)}: needs ${escape(one.needed)}, found ${escape(one.found)}${one.tight ? ", just enough" : ""}</li>`);
    parts.push("<h4>Depends on</h4>", `<ul>${shown.join("")}</ul>`);
  }
  const users = code.users.get(index) || [];
  if (users.length) {
    const shown = [...new Set(users)];
    const more = shown.length > 12 ? ` and ${shown.length - 12} more` : "";
    parts.push("<h4>Waited for by</h4>", `<p>${shown.slice(0, 12).map(go).join(", ")}${more}</p>`);
  }
  if (row.model) {
    parts.push("<h4>Cost</h4>", `<p>Keeps its unit for ${plural(row.model.keeps, "cycle")}; its result is there after ${row.model.latency}. ${plural(row.live ?? 0, "general register")} live behind it.${row.model.critical ? " It is on the longest chain of its block." : ""}</p>`);
  }
  if (row.word) parts.push("<h4>Word</h4>", `<p><code>${escape(row.word)}</code></p>`);
  return `<div class="body">${parts.join("")}</div>`;
}

function findingsHtml(codes) {
  const parts = [];
  codes.forEach((code, number) => {
    for (const note of code.fn.notes || []) parts.push(`<p class="warning">${escape(code.fn.name)}: ${escape(note)}</p>`);
    code.rows.forEach((row, index) => {
      for (const finding of row.findings || []) {
        parts.push(`<p><button class="go" data-function="${number}" data-go="${index}">${escape(code.fn.name)}+${hex(index * 16)}</button> <code>${escape(row.text || "")}</code><br><span class="bad">${escape(findingText(code, finding))}</span></p>`);
      }
    });
  });
  if (!parts.length) parts.push('<p class="okay">The judge finds nothing: every value is there before it is read, nothing is overwritten before it was read, and lanes meet where they must.</p>');
  return parts.join("");
}

function messagesHtml(messages) {
  if (!messages.length) return "<p>Nothing was said.</p>";
  return messages
    .map((one) => {
      const line = one.line ? `<button class="go" data-line="${one.line}">line ${one.line}</button> ` : "";
      const hint = one.hint ? `<br><span class="d">${escape(one.hint)}</span>` : "";
      const kind = one.severity === "error" ? "bad" : one.severity === "warning" ? "warning" : "";
      return `<p class="${kind}">${line}${escape(one.severity)}: <span style="white-space:pre-wrap">${escape(one.text)}</span>${hint}</p>`;
    })
    .join("");
}
