// What each run says of itself: lanes and calculations by state, what failed, and its graph.

import { drawStretch } from "./graph.js";
import { duration, el, put, redraw } from "./tools.js";

const LANES = ["waiting", "running", "done", "failed"];
const CALCULATIONS = ["waiting", "running", "done", "reused", "failed"];

export function showRuns(box, data) {
  if (!data.runs.length) {
    redraw(box, "none", () => [el("div", { class: "run" }, el("p", { class: "empty" }, "No run is connected."))]);
    return;
  }
  redraw(box, data.runs.map((run) => run.run), () => data.runs.map(card));
  data.runs.forEach((run, index) => refresh(box.children[index], run));
}

function card(run) {
  return el("article", { class: "run", "data-run": run.run },
    el("div", { class: "head" }, el("h2", {}, run.run), el("span", { class: "badge" })),
    el("div", { class: "meta" }),
    tally("lanes", LANES),
    tally("calculations", CALCULATIONS),
    el("div", { class: "failures", hidden: "" }),
    el("div", { class: "graphs" }));
}

function tally(what, states) {
  return el("div", { class: "tally", "data-tally": what },
    el("div", { class: "top" }, el("span", { class: "title" }, what), ...states.map((state) => key(what, state))),
    el("div", { class: "bar" }, ...states.map((state) => el("i", { class: state }))));
}

function key(what, state) {
  return el("span", { class: `key ${state}` }, el("span", { "data-value": `${what}.${state}` }, "0"), el("span", {}, state));
}

export function fill(element, counts) {
  for (const [state, count] of Object.entries(counts)) {
    const part = element.querySelector(`.bar .${state}`);
    if (part) {
      part.style.flexGrow = count;
      part.hidden = !count;
    }
    const shown = element.querySelector(`.key.${state}`);
    if (shown) {
      put(shown.firstElementChild, count);
      shown.classList.toggle("zero", !count);
    }
  }
}

function refresh(element, run) {
  const badge = element.querySelector(".badge");
  put(badge, run.state);
  badge.className = `badge ${run.state}`;
  const facts = [["graph", run.graph], ["at", run.node || "the beginning"], ["for", duration(run.elapsed_s)]];
  if (run.left_s !== null && run.state === "running") facts.push(["about", `${duration(run.left_s)} left`]);
  if (run.retried) facts.push(["retried", `${run.retried}`]);
  redraw(element.querySelector(".meta"), facts, () => facts.map(([name, value]) => el("span", { "data-fact": name }, `${name} `, el("b", {}, value))));
  fill(element.querySelector('[data-tally="lanes"]'), run.lanes);
  fill(element.querySelector('[data-tally="calculations"]'), run.calculations);
  const failures = element.querySelector(".failures");
  failures.hidden = !run.failures.length;
  redraw(failures, run.failures, () => [...run.failures].reverse().map((one) => el("p", {}, el("b", {}, one.lane), ` ${one.kind}: ${one.message}`)));
  const stretches = flat(run.drawing);
  redraw(element.querySelector(".graphs"), stretches, () => {
    const [root, ...inner] = stretches.map(drawStretch);
    return inner.length ? [root, el("div", { class: "inner" }, ...inner)] : [root];
  });
}

// A graph and, below it, what its nodes opened: from the outside in.
function flat(drawing, path = []) {
  const here = { ...drawing, path };
  delete here.below;
  const inner = drawing.below.flatMap((below) => flat(below, [...path, drawing.title]));
  return [here, ...inner];
}
