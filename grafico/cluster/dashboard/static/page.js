// Asks for the numbers once a second and shows them; keeps what it drew where nothing has changed.

import { showRuns } from "./runs.js";
import { remember, showWorkers } from "./slots.js";
import { duration, el, plural } from "./tools.js";

const EVERY_MS = 1000;
const HIDDEN_MS = 10000;

const state = { since: 0, began: null, misses: 0 };

async function ask() {
  const answer = await fetch(`grafico/data.json?since=${state.since}`, { cache: "no-store" });
  if (answer.status === 401) throw new Error("locked");
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  return answer.json();
}

function notice(text) {
  const box = document.getElementById("notice");
  box.hidden = !text;
  if (box.textContent !== text) box.textContent = text;
}

function summary(data) {
  const alive = data.workers.filter((worker) => worker.alive);
  const gpus = alive.filter((worker) => worker.unit === "slots");
  const busy = gpus.reduce((sum, worker) => sum + worker.busy, 0);
  const total = gpus.reduce((sum, worker) => sum + worker.total, 0);
  const parts = [plural(data.runs.length, "run"), plural(alive.length, "worker"), `up ${duration(data.now - data.began)}`];
  if (total) parts.splice(2, 0, `${busy} of ${total} GPU slots busy`);
  document.getElementById("summary").textContent = parts.join(" · ");
  const lanes = data.runs.reduce((sum, run) => [sum[0] + run.lanes.done, sum[1] + total_(run.lanes)], [0, 0]);
  document.title = lanes[1] ? `${lanes[0]}/${lanes[1]} lanes · grafico` : "grafico";
}

function total_(counts) {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}

function links(pages) {
  const nav = document.getElementById("dask");
  if (nav.childElementCount - 1 === pages.length) return;
  nav.replaceChildren(el("span", {}, "Dask:"), ...pages.map((page) => el("a", { href: page.path }, page.title)));
  nav.hidden = !pages.length;
}

function show(data) {
  if (state.began !== data.scheduler) {
    state.began = data.scheduler;
    remember(null);
  }
  remember(data.history);
  if (data.history.times.length) state.since = data.history.times.at(-1);
  summary(data);
  links(data.dask);
  showWorkers(document.getElementById("workers"), document.getElementById("slots-aside"), data);
  showRuns(document.getElementById("runs"), data);
  document.documentElement.dataset.updated = data.now;
}

async function round() {
  let wait = document.hidden ? HIDDEN_MS : EVERY_MS;
  try {
    show(await ask());
    state.misses = 0;
    notice("");
  } catch (error) {
    state.misses += 1;
    if (error.message === "locked") notice("The token is not known here any more. Open the link that grafico prints.");
    else if (state.misses > 2) notice("No answer: the cluster has ended, or the connection to it. What you see is how it stood last.");
    if (!(error instanceof TypeError) && error.message !== "locked") console.error(error);
    wait = Math.min(HIDDEN_MS, EVERY_MS * 2 ** state.misses);
  }
  setTimeout(round, wait);
}

document.addEventListener("visibilitychange", () => { if (!document.hidden && state.misses === 0) ask().then(show).catch(() => {}); });
round();
