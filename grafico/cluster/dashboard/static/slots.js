// How busy each worker was, and what it runs now.

import { duration, el, put, redraw, svg } from "./tools.js";

const LONGEST_S = 900;
const SHORTEST_S = 120;
const MANY = 16;
const LABELS = 12;

const kept = { times: [], busy: new Map() };

// Takes the steps that are new; null forgets all of them.
export function remember(history) {
  if (history === null) {
    kept.times = [];
    kept.busy.clear();
    return;
  }
  const before = kept.times.length;
  // Two answers may be under way at once, and tell the same steps.
  const first = history.times.findIndex((time) => !before || time > kept.times[before - 1]);
  if (first < 0) return;
  kept.times.push(...history.times.slice(first));
  for (const [name, values] of Object.entries(history.busy)) {
    if (!kept.busy.has(name)) kept.busy.set(name, Array(before).fill(null));
    kept.busy.get(name).push(...values.slice(first));
  }
  for (const [name, values] of kept.busy) {
    while (values.length < kept.times.length) values.push(null);
    if (!(name in history.busy)) kept.busy.delete(name);
  }
  const excess = kept.times.length - LONGEST_S;
  if (excess > 0) {
    kept.times.splice(0, excess);
    for (const values of kept.busy.values()) values.splice(0, excess);
  }
}

export function showWorkers(box, aside, data) {
  if (!data.workers.length) {
    redraw(box, "none", () => [el("p", { class: "empty" }, "No worker has reported yet.")]);
    return;
  }
  const names = data.workers.map((worker) => worker.name);
  redraw(box, names, () => [...data.workers.map(strip), el("div", { class: "axis" }, el("div", {}, el("span", { class: "since" }), el("span", {}, "now")))]);
  box.classList.toggle("many", data.workers.length > MANY);
  const span = Math.min(LONGEST_S, Math.max(SHORTEST_S, data.now - (kept.times[0] ?? data.now)));
  data.workers.forEach((worker, index) => refresh(box.children[index], worker, data, span));
  put(box.querySelector(".since"), `${duration(span)} ago`);
  put(aside, used(data, span));
}

function used(data, span) {
  const chosen = data.workers.some((worker) => worker.unit === "slots") ? "slots" : "CPUs";
  let busy = 0, room = 0;
  for (const worker of data.workers.filter((each) => each.unit === chosen)) {
    for (const value of kept.busy.get(worker.name) ?? []) {
      if (value === null) continue;
      busy += value;
      room += worker.total;
    }
  }
  const what = chosen === "slots" ? "GPU slots" : "CPUs";
  return room ? `${what} ${Math.round((100 * busy) / room)} % busy over the last ${duration(Math.min(span, data.now - kept.times[0]))}` : "";
}

function strip(worker) {
  const total = worker.total;
  const lines = [];
  if (total <= 12) for (let at = 1; at < total; at += 1) lines.push(svg("line", { class: "grid", x1: 0, x2: 1, y1: at, y2: at }));
  return el("div", { class: `worker ${worker.unit.toLowerCase()}`, "data-worker": worker.name },
    el("div", { class: "row" },
      el("div", { class: "name", title: worker.name }, worker.name),
      svg("svg", { viewBox: `0 0 1 ${total}`, preserveAspectRatio: "none", role: "img" }, svg("title"), svg("path", { class: "area" }), ...lines),
      el("div", { class: "count" }, el("b"), `/${total}`)),
    el("ul", { class: "labels" }));
}

function refresh(element, worker, data, span) {
  element.classList.toggle("gone", !worker.alive);
  put(element.querySelector(".count b"), worker.busy);
  element.querySelector(".area").setAttribute("d", area(worker, data.now, span));
  put(element.querySelector("title"), `${worker.busy} of ${worker.total} ${worker.unit} busy`);
  const several = data.runs.length > 1;
  const labels = worker.labels.map((here) => (several ? `${here.label} (${here.run})` : here.label));
  if (!worker.alive) labels.unshift("gone");
  redraw(element.querySelector(".labels"), labels, () => {
    const items = labels.slice(0, LABELS).map((label) => el("li", { title: label }, label));
    if (labels.length > LABELS) items.push(el("li", { class: "more" }, `and ${labels.length - LABELS} more`));
    return items;
  });
}

// A stair of mean busy slots, from the left edge (span seconds ago) to the right one (now).
function area(worker, now, span) {
  const values = kept.busy.get(worker.name) ?? [];
  const total = worker.total;
  let path = "", open = false, last = 0;
  kept.times.forEach((time, index) => {
    const right = 1 - (now - time) / span;
    const before = index ? kept.times[index - 1] : time - 1;
    const left = Math.max(0, 1 - (now - Math.max(before, time - 5)) / span);
    if (right <= 0) return;
    const value = values[index];
    if (value === null || value === undefined) {
      if (open) path += `V${total}Z`;
      open = false;
      return;
    }
    const y = (total - value).toFixed(3);
    path += open ? `V${y}H${right.toFixed(5)}` : `M${left.toFixed(5)} ${total}V${y}H${right.toFixed(5)}`;
    open = true;
    last = value;
  });
  if (open) path += `V${(total - (worker.alive ? worker.busy : last)).toFixed(3)}H1V${total}Z`;
  return path;
}
