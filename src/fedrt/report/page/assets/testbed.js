// A run in the testbed: the namespaces, shares of the CPU and link speeds that were emulated.

const saySpeed = (bps) => (Number.isFinite(bps) ? saySi(bps, "bit/s", 3) : "–");
const saySpan = (least, most) => (least === most ? saySpeed(least) : `${saySpeed(least)} to ${saySpeed(most)}`);

RUN_SECTIONS.push(fillTestbed);

function fillTestbed(run) {
  const bed = run && run.testbed;
  show(byId("testbed"), Boolean(bed));
  if (!bed) return;
  byId("testbed-run").textContent = `of ${runName(run)}`;
  const held = { cgroup: "a quota of the CPU", duty: "a duty cycle" }[bed.cpu] || "nothing";
  const words = [`Every party was in a network namespace of its own on one machine, of which a core stands for ${saySi(bed.core_hz, "Hz", 3)}. Training was held to its planned speed by ${held}, uploads by the edge servers, and links between these by the switch.`];
  if (hasPace(bed)) words.push(" A local step counted as so much time of a core as the table says, however fast the machine was at the moment.");
  for (const line of bed.missing) words.push(` ${line}.`);
  byId("testbed-text").textContent = words.join("");
  fillHosts(bed, run.detail && run.detail.measured);
  fillTable(
    byId("testbed-links"),
    ["", "slowest", "mean", "fastest"],
    bed.speeds.map(({ pair, least_bps: least, mean_bps: mean, most_bps: most }) => [`edge server ${pair[0]} – ${pair[1]}`, saySpeed(least), saySpeed(mean), saySpeed(most)]),
  );
}

const hasPace = (bed) => bed.hosts.some((host) => host.core_step_s);

function fillHosts(bed, measured) {
  const [least, most] = measured && measured.devices.least_bps ? [unpack(measured.devices.least_bps), unpack(measured.devices.most_bps)] : [[], []];
  const rows = bed.hosts.slice(0, MOST_DEVICE_ROWS).map((host) => {
    const n = Number(host.name.split("-")[1]);
    const device = host.edge !== null;
    const pace = host.core_step_s ? saySi(host.core_step_s, "s", 3) : "";
    const words = [host.name, host.address, host.namespace, device ? `edge-${host.edge}` : "", device ? sayPercent(host.cpu_share, 1) : ""];
    return [...words, ...(hasPace(bed) ? [pace] : []), device ? saySpan(least[n], most[n]) : ""];
  });
  const heads = ["", "address", "namespace", "with", "of a core at full speed", ...(hasPace(bed) ? ["local step on a core"] : []), "uploads"];
  fillTable(byId("testbed-hosts"), heads, rows);
}
