// Start: draw what the page holds, or follow a run by asking for its data again and again.

const LEAST_WAIT_MS = 1000;

/** Put new data on the page, keeping what the viewer has chosen. */
function fill(data) {
  page.data = data;
  byId("title").textContent = data.title;
  byId("subtitle").textContent = data.subtitle;
  byId("foot").textContent = `FedRT ${data.version}. Charts by Apache ECharts ${echarts.version}.`;
  fillProblems();
  fillSummary();
  fillLines();
  fillRounds();
  if (theRun()) fillRun();
  else {
    for (const id of ["devices", "codecs", "partition"]) show(byId(id), false);
    fillMeasured(page.data.runs.find((run) => run.fleet));
  }
  fillStudies();
  fillConfigs();
  fillFigures();
  fillProgress(null);
  fillNav();
  for (const id of LINE_CHARTS) page.charts[id].update();
  page.updates += 1;
}

/** The data if they have changed since `tag`, else null; complains where they cannot be had. */
async function ask(address, tag) {
  const headers = tag ? { "If-None-Match": tag } : {};
  const answer = await fetch(address, { cache: "no-store", headers });
  if (answer.status === 304) return null;
  if (!answer.ok) throw new Error(String(answer.status));
  const now = Number(answer.headers.get("X-Now"));
  return { data: await answer.json(), tag: answer.headers.get("ETag"), offset: now - Date.now() / 1000 };
}

/** Ask for data until the page is closed; what cannot be had now may be there next time. */
async function follow(address) {
  let last = { tag: "", offset: 0 };
  for (;;) {
    const began = performance.now();
    let answer = null;
    try {
      answer = await ask(address, last.tag);
    } catch (error) {
      say(["fedrt watch has ended, or cannot be reached; this is what it last showed"]);
      last.tag = "";
    }
    if (answer) {
      last = answer;
      if (last.data.lines) fill(last.data);
      else say(last.data.problems);
    }
    if (page.data) {
      const age = Date.now() / 1000 + last.offset - page.data.progress.written_at_s;
      fillProgress(Math.max(0, age));
    }
    const took = performance.now() - began;
    await new Promise((wake) => setTimeout(wake, Math.max(LEAST_WAIT_MS, 3 * took)));
  }
}

function say(lines) {
  show(byId("problems"), true);
  byId("problems").replaceChildren(...lines.map((line) => make("p", {}, line)));
}

function start() {
  setUpTheme(() => {
    if (!page.data) return;
    drawLegend();
    fillSummary();
    fillStudies();
    updateAll();
    if (theRun()) drawRound();
  });
  setUpLines();
  setUpRounds();
  setUpDevices();
  setUpCodecs();
  setUpMeasured();
  addEventListener("beforeprint", drawForPaper);
  addEventListener("afterprint", clearPaper);
  const address = document.documentElement.dataset.watch;
  if (address) follow(address);
  else fill(JSON.parse(byId("data").textContent));
  page.ready = true;
  performance.mark("fedrt-ready");
}

start();
