// Draws the curves of a run, keeps a page of a running run up to date, and moves between pages by keys.
"use strict";

const plots = [];
const COLOURS = ["#0969da", "#bc4c00", "#1a7f37", "#8250df", "#cf222e", "#9a6700", "#0e7490", "#57606a"];

function element(name, text, parent) {
  const made = document.createElement(name);
  if (text !== "") made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

function table(chart, parent) {
  const details = element("details", "", parent);
  element("summary", "Values as a table", details);
  details.addEventListener("toggle", () => {
    if (!details.open || details.children.length > 1) return;
    const made = element("table", "", details);
    const head = element("tr", "", element("thead", "", made));
    for (const label of [chart.axis ?? "step", ...chart.series.map((s) => s.label)]) element("th", label, head).scope = "col";
    const body = element("tbody", "", made);
    chart.x.forEach((x, at) => {
      const row = element("tr", "", body);
      const cell = element("td", chart.page ? "" : String(x), row);
      if (chart.page) element("a", String(x), cell).href = `${chart.page}/${x}`;
      for (const s of chart.series) element("td", s.values[at] === null ? "–" : Number(s.values[at]).toPrecision(4), row);
    });
  });
}

function range(plot, low, high) {
  return low === high ? [Math.min(0, low), Math.max(0, high) || 1] : uPlot.rangeNum(low, high, 0.1, true);
}

function colour(series, place) {
  return COLOURS[{ interval: 0, baseline: COLOURS.length - 1 }[series.beside] ?? (series.place ?? place) % COLOURS.length];
}

// A value under the cursor, or the last one while the cursor is elsewhere.
function value(plot, under, series, at) {
  const found = at === null ? plot.data[series].findLast((each) => each !== null) : under;
  return found === null || found === undefined ? "–" : String(Number(found.toPrecision(4)));
}

function draw(chart, alarms, parent) {
  const box = element("div", "", parent);
  box.className = chart.page ? "chart linked" : "chart";
  element("h3", chart.title, box);
  if (chart.note) element("p", chart.note, box).className = "quiet";
  const place = element("div", "", box);
  const axis = { stroke: () => getComputedStyle(document.body).color, grid: { stroke: "#8884", width: 1 }, ticks: { stroke: "#8884" } };
  const plot = new uPlot(
    {
      width: Math.max(280, box.clientWidth - 20),
      height: 220,
      scales: { x: { time: false }, y: { range } },
      axes: [{ ...axis, label: chart.axis ?? "step", labelSize: 18 }, { ...axis, size: 64, values: (u, ticks) => ticks.map((tick) => String(Number(tick.toPrecision(3)))) }],
      series: [
        { label: chart.axis ?? "step", value },
        ...chart.series.map((s, i) => ({
          label: s.label,
          stroke: colour(s, i),
          width: 1.5,
          spanGaps: !chart.page,
          dash: s.beside || s.dashed ? [4, 4] : undefined,
          value,
          points: { show: chart.x.length < 40 },
        })),
      ],
      hooks: {
        draw: [
          (u) => {
            u.ctx.save();
            u.ctx.strokeStyle = "#cf222e";
            for (const alarm of alarms) {
              const x = u.valToPos(alarm.step, "x", true);
              u.ctx.beginPath();
              u.ctx.moveTo(x, u.bbox.top);
              u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
              u.ctx.stroke();
            }
            u.ctx.restore();
          },
        ],
      },
    },
    [chart.x, ...chart.series.map((s) => s.values)],
    place,
  );
  plot.setLegend({ idx: null });
  plots.push(plot);
  place.addEventListener("click", () => {
    const at = plot.cursor.idx;
    if (chart.page && at !== null && at !== undefined) location.href = `${chart.page}/${chart.x[at]}`;
  });
  table(chart, box);
}

async function charts() {
  const parent = document.getElementById("charts");
  if (!parent) return;
  const answer = await fetch(parent.dataset.source);
  if (!answer.ok) return;
  const found = await answer.json();
  parent.replaceChildren();
  plots.length = 0;
  for (const chart of found.charts) draw(chart, found.alarms, parent);
  parent.dataset.drawn = String(found.charts.length);
}

async function refresh() {
  const { run, seq, live } = document.body.dataset;
  if (live !== "yes" || document.hidden) return;
  const state = await (await fetch(`${run}state`)).json();
  if (String(state.seq) === seq) return;
  const page = new DOMParser().parseFromString(await (await fetch(location.href)).text(), "text/html");
  const old = document.getElementById("charts");
  document.querySelector("main").replaceWith(document.adoptNode(page.querySelector("main")));
  document.body.dataset.seq = page.body.dataset.seq;
  document.body.dataset.live = page.body.dataset.live;
  if (old) await charts();
}

function tokenFacts(token) {
  const { id, origin, logp, advantage, difference, entropy } = token.dataset;
  const facts = [`token ${id}`, origin];
  if (logp !== undefined) facts.push(`log-probability ${logp}`, `probability ${Math.exp(logp).toPrecision(3)}`);
  if (advantage !== undefined) facts.push(`advantage ${advantage}`);
  if (difference !== undefined) facts.push(`learner less sampler ${difference} nats`, `ratio ${Math.exp(difference).toPrecision(6)}`);
  if (entropy !== undefined) facts.push(`entropy ${entropy} nats`);
  return facts;
}

document.addEventListener("mouseover", (event) => {
  const token = event.target.closest(".tokens span");
  if (token) token.closest("details").querySelector(".token-facts").textContent = tokenFacts(token).join(", ");
});

for (const details of document.querySelectorAll(".token-table")) {
  details.addEventListener("toggle", () => {
    if (!details.open || details.children.length > 1) return;
    const made = element("table", "", details);
    const head = element("tr", "", element("thead", "", made));
    for (const label of ["text", "what is known of it"]) element("th", label, head).scope = "col";
    const body = element("tbody", "", made);
    for (const token of details.parentElement.querySelectorAll(".tokens span")) {
      const row = element("tr", "", body);
      element("td", token.textContent, row);
      element("td", tokenFacts(token).join(", "), row);
    }
  });
}

function above() {
  return [...document.querySelectorAll("nav > a")].reverse().find((link) => link.pathname !== location.pathname);
}

function help() {
  const old = document.querySelector("dialog");
  if (old) old.remove();
  const dialog = element("dialog", "", document.body);
  dialog.setAttribute("aria-label", "Keys of this page");
  const list = element("dl", "", dialog);
  const keys = [...document.querySelectorAll("[data-key]")].map((link) => [link.dataset.key, link.textContent]);
  if (document.getElementById("filter")) keys.unshift(["/", "go to the search field"]);
  if (above() && !keys.some(([key]) => key === "u")) keys.push(["u", "up"]);
  for (const [key, text] of [...keys, ["?", "show the keys"], ["Esc", "close"]]) {
    element("dt", key, list);
    element("dd", text, list);
  }
  dialog.showModal();
}

document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  const named = [...document.querySelectorAll("[data-key]")].find((link) => link.dataset.key === event.key);
  const keyed = named ?? (event.key === "u" ? above() : null);
  const filter = event.key === "/" ? document.getElementById("filter") : null;
  if (filter || keyed) event.preventDefault();
  if (filter) filter.focus();
  else if (keyed) keyed.click();
  else if (event.key === "?") help();
});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plots.forEach((plot) => plot.redraw(false, true)));
charts();
setInterval(() => refresh().catch(() => {}), 1000);
