// What must hold of the page that compiles for itself: every example compiles, runs, and can be compared; what is wrong is told.
(async () => {
  const results = [];
  const check = (what, holds) => results.push([what, Boolean(holds)]);
  const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
  const until = async (holds) => {
    for (let tries = 0; tries < 1000 && !holds(); tries++) await wait(10);
    return holds();
  };
  const $ = (selector) => document.querySelector(selector);
  const all = (selector) => [...document.querySelectorAll(selector)];
  try {
    check("the engine starts", await until(() => document.documentElement.dataset.ready));
    results.push(["milliseconds until ready: " + Math.round(performance.now()), true]);
    const examples = JSON.parse($("#data").textContent).examples;
    for (const [at, example] of examples.entries()) {
      $("#live").textContent = "";
      $("#example").value = String(at);
      $("#example").dispatchEvent(new Event("change"));
      check(`${example.name} compiles`, await until(() => $("#live").textContent.startsWith("compiled")));
      check(`${example.name} passes the judge`, $("#findings").textContent.includes("finds nothing"));
      $("#tab-step").click();
      $("#step [type=submit]").click();
      check(`${example.name} runs`, await until(() => $("#step .now").textContent.includes(" of ")));
      $("#step [data-do=last]").click();
      check(`${example.name} ends`, $("#step .told").textContent.includes("argument"));
    }
    $("#against").value = "-O0";
    $("#live").textContent = "";
    $("#tools [type=submit]").click();
    check("a second variant", await until(() => $("#live").textContent.startsWith("compiled")) && !$("#variants").hidden);
    $("#against").value = "rescheduled";
    $("#live").textContent = "";
    $("#tools [type=submit]").click();
    check("a new order", await until(() => $("#live").textContent.startsWith("compiled")));
    const field = $("#source textarea");
    field.value = field.value.replace("mov.u32", "mov.q32");
    field.dispatchEvent(new Event("input"));
    $("#tools [type=submit]").click();
    check("an error is told", await until(() => all("#messages .bad").length > 0) && all(".gutter .err").length > 0);
    check("no error of the page", window.problems.length === 0);
  } catch (error) {
    results.push([String(error.stack || error), false]);
  }
  results.push(...window.problems.map((problem) => [problem, false]));
  const out = document.createElement("pre");
  out.id = "result";
  out.textContent = JSON.stringify(results);
  document.body.append(out);
})();
