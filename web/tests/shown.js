// What must hold of a page with two variants and a run, tried in a browser as a user would: by clicks and keys. The results go into
// the page, where the test reads them.
(async () => {
  const results = [];
  const check = (what, holds) => results.push([what, Boolean(holds)]);
  const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
  const $ = (selector) => document.querySelector(selector);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const key = (target, name) => target.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
  const set = (input) => {
    input.checked = true;
    input.dispatchEvent(new Event("change", { bubbles: true }));
  };
  try {
    for (let tries = 0; tries < 400 && !document.documentElement.dataset.ready; tries++) await wait(10);
    check("the page is ready", document.documentElement.dataset.ready);
    const ready = performance.now();
    const data = JSON.parse($("#data").textContent);
    const rows = data.documents[0].functions[0].instructions;
    check("a row for each instruction", all("#listing .row").length === rows.length);
    check("every row says what it is", all("#listing .row").every((row) => row.getAttribute("aria-label").length > 4));

    const linked = rows.findIndex((row) => row.line && row.depends);
    all("#listing .row")[linked].click();
    check("a click chooses", $("#listing .chosen").dataset.at === String(linked));
    check("its PTX line is marked", [...$("#source pre").children].findIndex((line) => line.classList.contains("linked")) === rows[linked].line - 1);
    check("its control word is explained", $("#details").textContent.includes(rows[linked].explained[0]));
    check("what it depends on is named", $("#details").textContent.includes("Depends on"));
    $("#details .go").click();
    check("what it depends on can be gone to", $("#listing .chosen").dataset.at !== String(linked));

    const field = $("#source textarea");
    const line = rows[linked].line;
    const place = field.value.split("\n").slice(0, line - 1).join("\n").length + 1;
    field.setSelectionRange(place, place);
    field.dispatchEvent(new KeyboardEvent("keyup", { key: "ArrowDown", bubbles: true }));
    const marked = all("#listing .row.linked").map((row) => Number(row.dataset.at));
    check("a PTX line marks its instructions", marked.length > 0 && marked.every((at) => rows[at].line === line));

    const before = $("#listing").getAttribute("aria-activedescendant");
    key($("#listing"), "ArrowDown");
    const behind = $("#listing").getAttribute("aria-activedescendant");
    check("arrow keys choose", before !== behind && $("#" + behind).getAttribute("aria-selected") === "true");
    key($("#listing"), "Home");
    check("home is the first", $("#listing .chosen").dataset.at === "0");

    const control = all("#listing .row .w")[linked];
    control.dispatchEvent(new MouseEvent("mousemove", { bubbles: true, clientX: 500, clientY: 200 }));
    check("hovering a control word explains it", !$("#tip").hidden && $("#tip").textContent.includes("Stall"));
    $("#listing").dispatchEvent(new MouseEvent("mouseleave"));

    const canvas = $("#timeline canvas");
    check("the timeline is drawn", canvas.width > 300 && canvas.getAttribute("aria-label").includes("cycles"));
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    check("with bars in it", new Set(pixels).size > 20);
    key($("#timeline .chart"), "ArrowRight");
    check("arrow keys choose in the timeline", $("#listing .chosen").dataset.at === "1");

    const first = $("#listing .row:nth-of-type(5) .y")?.textContent;
    set($("[name=clock][value=model]"));
    check("the other clock", $("#listing .row .y").textContent === "0" && first !== undefined);
    set($("[name=clock][value=words]"));

    $("#tab-step").click();
    check("tabs open", !$("#step").hidden && $("#timeline").hidden);
    for (let at = 0; at < 12; at++) $("#step [data-do=forth]").click();
    check("steps fill registers", all("#step tbody tr").length > 1 && all("#step thead [data-lane]").length === 32);
    check("the step is marked in the code", all("#listing .row.here").length === 1);
    $("#step [data-do=back]").click();
    check("steps go back", $("#step .now").textContent.startsWith("11 of"));
    $("#step [data-do=last]").click();
    check("the end shows buffers", $("#step .told").textContent.includes("argument"));
    $("#step thead [data-lane='3']").click();
    check("a lane alone", all("#step thead [data-lane]").length === 1);

    $("#tab-compare").click();
    check("the comparison has numbers", all("#compare tbody tr").length >= 6);
    all("#compare .list")[0].children[2].click();
    check("counterparts are linked", all("#compare .chosen").length === 1);
    set($("[name=variant][value='1']"));
    check("the other variant", all("#listing .row").length === data.documents[1].functions[0].instructions.length);
    set($("[name=variant][value='0']"));

    $("#tab-findings").click();
    check("the judge says something", $("#findings").textContent.length > 20);
    $("#tab-messages").click();
    check("the compiler says something", $("#messages").textContent.includes("registers"));
    $("#theme").click();
    check("dark or light", document.documentElement.dataset.theme);
    $("#tab-timeline").click();
    check("every button has a name", all("button").every((one) => (one.textContent + (one.getAttribute("aria-label") || "")).trim()));
    check("every field has a name", all("input, select, textarea").every((one) => one.labels?.length || one.getAttribute("aria-label")));
    check("no error", window.problems.length === 0);
    results.push(["milliseconds until ready: " + Math.round(ready), true]);
  } catch (error) {
    results.push([String(error.stack || error), false]);
  }
  results.push(...window.problems.map((problem) => [problem, false]));
  const out = document.createElement("pre");
  out.id = "result";
  out.textContent = JSON.stringify(results);
  document.body.append(out);
})();
