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
  else for (const id of ["devices", "partition"]) show(byId(id), false);
  fillStudies();
  fillConfigs();
  fillFigures();
  fillProgress(null);
  fillNav();
  for (const id of LINE_CHARTS) page.charts[id].update();
  page.updates += 1;
}

/** Ask for data until the page is closed; what cannot be had now may be there next time. */
async function follow(address) {
  let tag = "";
  let written = null;
  let offset = 0;
  for (;;) {
    const began = performance.now();
    try {
      const answer = await fetch(address, { cache: "no-store", headers: tag ? { "If-None-Match": tag } : {} });
      if (answer.status === 200) {
        const data = await answer.json();
        tag = answer.headers.get("ETag") || "";
        offset = Number(answer.headers.get("X-Now")) - Date.now() / 1000;
        if (data.lines) {
          written = data.progress.written_at_s;
          fill(data);
        } else {
          say(data.problems);
        }
      } else if (answer.status !== 304) {
        say([`the data cannot be had: ${answer.status}`]);
      }
      if (page.data && written !== null) fillProgress(Math.max(0, Date.now() / 1000 + offset - written));
    } catch (error) {
      say(["fedrt watch has ended, or cannot be reached; this is what it last showed"]);
      tag = "";
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
    updateAll();
    if (theRun()) drawRound();
  });
  setUpLines();
  setUpRounds();
  setUpDevices();
  const address = document.documentElement.dataset.watch;
  if (address) follow(address);
  else fill(JSON.parse(byId("data").textContent));
  page.ready = true;
  performance.mark("fedrt-ready");
}

start();
