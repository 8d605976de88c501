// Draws the charts of a page: lines with bands, smoothed on request, whole steps on the axis.
"use strict";

const plots = [];
const STEPS = [1, 2, 5].flatMap((first) => [...Array(9).keys()].map((zeros) => first * 10 ** zeros)).sort((a, b) => a - b);
const COLOURS = 8;

function element(name, text, parent) {
  const made = document.createElement(name);
  if (text !== "") made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

function colour(place) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--c${((place % COLOURS) + COLOURS) % COLOURS}`).trim();
}

function digits(value) {
  return String(Number(value.toPrecision(4)));
}

function table(chart, parent) {
  const details = element("details", "", parent);
  element("summary", "Values as a table", details);
  details.addEventListener("toggle", () => {
    if (!details.open || details.children.length > 1) return;
    const made = element("table", "", details);
    const head = element("tr", "", element("thead", "", made));
    const columns = chart.series.flatMap((s) => [[s.label, s.values], ...(s.low ? [["low", s.low], ["high", s.high]] : [])]);
    for (const label of [chart.axis ?? "step", ...columns.map(([name]) => name)]) element("th", label, head).scope = "col";
    const body = element("tbody", "", made);
    chart.x.forEach((x, at) => {
      const row = element("tr", "", body);
      const cell = element("td", chart.page ? "" : String(x), row);
      if (chart.page) element("a", String(x), cell).href = `${chart.page}/${x}`;
      for (const [, values] of columns) element("td", values[at] === null ? "–" : digits(values[at]), row);
    });
  });
}

// An exponential mean that does not start at zero. A missing value stays missing.
function smoothed(values, weight) {
  let sum = 0;
  let mass = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = weight * sum + (1 - weight) * value;
    mass = weight * mass + 1 - weight;
    return sum / mass;
  });
}

// What the plot draws, in order: the edges of the bands, the values as they are, the smoothed ones.
function lines(chart, weight) {
  const found = [];
  const smooth = weight > 0 && chart.smooth !== false && chart.x.length > 2;
  const drawn = (values) => (smooth && values ? smoothed(values, weight) : values);
  chart.series.forEach((s, at) => {
    const shown = { ...s, place: s.place ?? at, values: drawn(s.values), low: drawn(s.low), high: drawn(s.high) };
    if (s.low) for (const edge of ["high", "low"]) found.push({ values: shown[edge], place: shown.place, edge });
    if (smooth) found.push({ values: s.values, place: shown.place, raw: true });
    found.push({ ...shown, shown });
  });
  return found;
}

function bands(drawn) {
  return drawn.flatMap((line, at) =>
    line.edge === "high" ? [{ series: [at + 1, at + 2], fill: () => `${colour(line.place)}2e` }] : [],
  );
}

function series(line, chart) {
  const stroke = () => (line.edge ? "transparent" : line.raw ? `${colour(line.place)}55` : colour(line.place));
  const alone = chart.x.length < 40 && !line.edge && !line.raw;
  return {
    label: line.label ?? "",
    class: line.shown ? undefined : "beside",
    stroke,
    width: line.edge ? 0 : line.raw ? 1 : 1.5,
    spanGaps: !chart.page,
    dash: line.dashed || line.place >= COLOURS ? [4, 4] : undefined,
    value: (plot, under, at, idx) => value(plot, at, idx, line.shown),
    points: { show: alone, size: 5, stroke, fill: stroke },
  };
}

// A value under the cursor with its interval, or the last one while the cursor is elsewhere.
function value(plot, at, idx, shown) {
  const values = plot.data[at];
  const place = idx ?? values.findLastIndex((each) => each !== null);
  if (place < 0 || values[place] === null || values[place] === undefined) return "–";
  const low = shown?.low?.[place] ?? null;
  return digits(values[place]) + (low === null ? "" : ` [${digits(low)}, ${digits(shown.high[place])}]`);
}

function range(plot, low, high) {
  if (low === null) return [0, 1];
  return low === high ? [Math.min(0, low), Math.max(0, high) || 1] : uPlot.rangeNum(low, high, 0.1, true);
}

function axes(chart) {
  const line = { stroke: () => getComputedStyle(document.body).color, grid: { stroke: "#8883", width: 1 }, ticks: { stroke: "#8883" } };
  const x = chart.axis ? {} : { incrs: STEPS, values: (u, ticks) => ticks.map((tick) => (Number.isInteger(tick) && tick >= 0 ? String(tick) : "")) };
  return [
    { ...line, ...x, label: chart.axis ?? "step", labelSize: 18 },
    { ...line, size: 64, values: (u, ticks) => ticks.map((tick) => String(Number(tick.toPrecision(3)))) },
  ];
}

function marked(alarms) {
  return (u) => {
    u.ctx.save();
    u.ctx.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--wrong");
    for (const alarm of alarms) {
      const x = u.valToPos(alarm.step, "x", true);
      u.ctx.beginPath();
      u.ctx.moveTo(x, u.bbox.top);
      u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
      u.ctx.stroke();
    }
    u.ctx.restore();
  };
}

function draw(chart, alarms, weight, parent) {
  const box = element("div", "", parent);
  box.className = chart.page ? "chart linked" : "chart";
  element("h3", chart.title, box);
  if (chart.note) element("p", chart.note, box).className = "quiet";
  const place = element("div", "", box);
  const drawn = lines(chart, weight);
  const whole = (plot, low, high) => (low === high ? [low - 1, high + 1] : [low, high]);
  const options = {
    width: Math.max(240, box.clientWidth - 20),
    height: 220,
    scales: { x: { time: false, range: whole }, y: { range } },
    axes: axes(chart),
    series: [{ label: chart.axis ?? "step", value: (plot, under, at, idx) => value(plot, 0, idx) }, ...drawn.map((line) => series(line, chart))],
    bands: bands(drawn),
    hooks: { draw: [marked(alarms)] },
  };
  const plot = new uPlot(options, [chart.x, ...drawn.map((line) => line.values)], place);
  plot.setLegend({ idx: null });
  plots.push(plot);
  place.addEventListener("click", () => {
    const at = plot.cursor.idx;
    if (chart.page && at !== null && at !== undefined) location.href = `${chart.page}/${chart.x[at]}`;
  });
  table(chart, box);
}

// The weight of the past in a smoothed curve, from the address of the page.
function weight() {
  const given = Number(new URLSearchParams(location.search).get("smooth"));
  return given > 0 && given < 1 ? given : 0;
}

let fetched = null;

function drawAll() {
  const parent = document.getElementById("charts");
  parent.replaceChildren();
  plots.length = 0;
  for (const chart of fetched.charts) draw(chart, fetched.alarms, weight(), parent);
  parent.dataset.drawn = String(fetched.charts.length);
}

function showWeight() {
  const slider = document.getElementById("smooth");
  if (!slider) return;
  slider.value = weight();
  document.querySelector("output[for=smooth]").textContent = weight() ? weight().toFixed(2) : "none";
}

async function charts() {
  const parent = document.getElementById("charts");
  if (!parent) return;
  showWeight();
  const answer = await fetch(parent.dataset.source);
  if (!answer.ok) return;
  fetched = await answer.json();
  drawAll();
}

document.addEventListener("input", (event) => {
  if (event.target.id !== "smooth" || !fetched) return;
  const address = new URL(location.href);
  if (Number(event.target.value)) address.searchParams.set("smooth", event.target.value);
  else address.searchParams.delete("smooth");
  history.replaceState(null, "", address);
  showWeight();
  drawAll();
});

let resizing = 0;
addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(() => {
    for (const plot of plots) plot.setSize({ width: Math.max(240, plot.root.closest(".chart").clientWidth - 20), height: 220 });
  }, 150);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plots.forEach((plot) => plot.redraw(false, true)));
charts();
