// Keeps a page of a running run up to date, moves between pages by keys, and shows what is known of a token.
"use strict";

// What a reader has opened on the page, by the texts of its headings.
function opened(region) {
  return new Set([...region.querySelectorAll("details[open] > summary")].map((summary) => summary.textContent));
}

// Whether the note is being edited or is not sent yet.
function written(region) {
  const changed = (field) => field.value !== field.defaultValue || field === document.activeElement;
  return [...region.querySelectorAll("input:not([type=range]), textarea")].some(changed);
}

async function refresh() {
  const { run, seq, live } = document.body.dataset;
  const region = () => document.getElementById("fresh") ?? document.querySelector("main");
  if (live !== "yes" || document.hidden || written(region())) return;
  const state = await (await fetch(`${run}state`)).json();
  if (String(state.seq) === seq && state.status === "running") return;
  const page = new DOMParser().parseFromString(await (await fetch(location.href)).text(), "text/html");
  const old = document.getElementById("charts");
  const open = opened(region());
  region().replaceWith(document.adoptNode(page.getElementById("fresh") ?? page.querySelector("main")));
  for (const summary of region().querySelectorAll("summary")) if (open.has(summary.textContent)) summary.parentElement.open = true;
  document.body.dataset.seq = page.body.dataset.seq;
  document.body.dataset.live = page.body.dataset.live;
  if (old) await charts();
  await doctor();
}

// The doctor's findings load after the page of a run, because they take seconds.
async function doctor() {
  const place = document.getElementById("doctor");
  if (!place?.dataset.source) return;
  const answer = await fetch(place.dataset.source);
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  place.replaceChildren(document.adoptNode(page.getElementById("diagnosis")));
}

// Samples side by side: says how many are out of sight, and moves to them.
function sides() {
  for (const side of document.querySelectorAll(".side")) {
    const cue = side.previousElementSibling;
    const [back, on] = cue.querySelectorAll("button");
    const show = () => {
      const all = [...side.children];
      const right = all.filter((each) => each.offsetLeft - side.offsetLeft + each.offsetWidth > side.scrollLeft + side.clientWidth + 8).length;
      const left = all.filter((each) => each.offsetLeft - side.offsetLeft < side.scrollLeft - 8).length;
      cue.hidden = side.scrollWidth <= side.clientWidth;
      back.disabled = !left;
      on.disabled = !right;
      cue.querySelector("span").textContent = `${all.length} samples: ${left} to the left, ${right} to the right`;
    };
    back.addEventListener("click", () => side.scrollBy({ left: -side.clientWidth * 0.8 }));
    on.addEventListener("click", () => side.scrollBy({ left: side.clientWidth * 0.8 }));
    side.addEventListener("scroll", show, { passive: true });
    addEventListener("resize", show);
    show();
  }
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

// The address of a group on the page of a step opens it.
if (location.hash) {
  const named = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (named?.matches("details")) named.open = true;
}
sides();
doctor().catch(() => {});
setInterval(() => refresh().catch(() => {}), 1000);
