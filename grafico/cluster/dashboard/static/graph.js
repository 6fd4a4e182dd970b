// A graph with counts. Nodes stand in rows, by the longest way from the start; edges to the next row go straight down,
// those that skip rows pass on the right, those that lead back on the left.

import { el, svg } from "./tools.js";

const ROW = 66, HEIGHT = 38, GAP = 16, PAD = 8, TRACK = 13, LETTER = 7.4;
const STATES = ["waiting", "running", "done", "failed"];

export function drawStretch(stretch) {
  const count = STATES.reduce((sum, state) => sum + stretch.lanes[state], 0);
  const parts = [el("h3", {}, count ? `${stretch.title} × ${count}` : stretch.title)];
  if (stretch.at) parts.push(el("p", { class: "from" }, `lanes opened by ${stretch.at}`));
  if (count) {
    const present = STATES.filter((state) => stretch.lanes[state]);
    parts.push(el("div", { class: "lanes" }, ...present.map((state) => el("span", { class: `key ${state}` }, el("span", {}, `${stretch.lanes[state]} ${state}`)))));
    const bar = el("div", { class: "bar thin" }, ...present.map((state) => el("i", { class: state })));
    present.forEach((state, index) => { bar.children[index].style.flexGrow = stretch.lanes[state]; });
    parts.push(bar);
  }
  if (stretch.nodes.length) parts.push(picture(stretch));
  return el("div", { class: "stretch", "data-stretch": [...stretch.path, stretch.title].join(" / ") }, ...parts);
}

function picture(stretch) {
  const edges = allEdges(stretch);
  const nodes = new Map(stretch.nodes.map((node, index) => [node.id, { ...node, index, width: Math.max(84, node.id.length * LETTER + 20) }]));
  const rows = arrange(nodes, edges);
  const widest = Math.max(...rows.map((row) => row.reduce((sum, node) => sum + node.width + GAP, -GAP)));
  const right = tracks(edges.filter((edge) => span(edge, nodes) > 1), nodes);
  const left = tracks(edges.filter((edge) => span(edge, nodes) < 1), nodes);
  const margin = PAD + left * TRACK;
  rows.forEach((row, index) => {
    let x = margin + (widest - row.reduce((sum, node) => sum + node.width + GAP, -GAP)) / 2;
    for (const node of row) {
      node.x = x + node.width / 2;
      node.y = PAD + index * ROW + HEIGHT / 2;
      x += node.width + GAP;
    }
  });
  const width = margin + widest + right * TRACK + PAD, height = 2 * PAD + (rows.length - 1) * ROW + HEIGHT;
  const frame = { left: margin, right: margin + widest };
  const lines = edges.sort((a, b) => a.taken - b.taken).flatMap((edge) => line(edge, nodes, frame));
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `graph ${stretch.title}` }, ...lines, ...[...nodes.values()].map(box));
}

function allEdges(stretch) {
  const found = new Map();
  for (const edge of stretch.declared ?? []) found.set(`${edge.from}\n${edge.to}`, { ...edge, taken: 0 });
  for (const edge of stretch.edges) {
    const name = `${edge.from}\n${edge.to}`;
    found.set(name, { guarded: false, ...found.get(name), ...edge });
  }
  return [...found.values()];
}

// Rows by the longest way from a start; an edge that closes a circle does not count.
function arrange(nodes, edges) {
  const next = new Map([...nodes.keys()].map((id) => [id, edges.filter((edge) => edge.from === id && nodes.has(edge.to)).map((edge) => edge.to)]));
  const back = new Set(), state = new Map(), order = [];
  const visit = (id) => {
    state.set(id, "open");
    for (const to of next.get(id)) {
      if (state.get(to) === "open") back.add(`${id}\n${to}`);
      else if (!state.has(to)) visit(to);
    }
    state.set(id, "closed");
    order.unshift(id);
  };
  for (const id of nodes.keys()) if (!state.has(id)) visit(id);
  for (const node of nodes.values()) node.row = 0;
  for (const id of order) {
    for (const to of next.get(id)) {
      if (!back.has(`${id}\n${to}`)) nodes.get(to).row = Math.max(nodes.get(to).row, nodes.get(id).row + 1);
    }
  }
  const rows = [];
  for (const node of [...nodes.values()].sort((a, b) => a.row - b.row || a.index - b.index)) (rows[node.row] ??= []).push(node);
  return rows.filter((row) => row?.length);
}

function span(edge, nodes) {
  return nodes.get(edge.to).row - nodes.get(edge.from).row;
}

// Gives each edge the innermost track beside the rows on which it meets no other; returns how many there are.
function tracks(edges, nodes) {
  const taken = [];
  const rowsOf = (edge) => [nodes.get(edge.from).row, nodes.get(edge.to).row].sort((a, b) => a - b);
  edges.sort((a, b) => Math.abs(span(a, nodes)) - Math.abs(span(b, nodes)));
  for (const edge of edges) {
    const [top, bottom] = rowsOf(edge);
    let track = taken.findIndex((others) => others.every(([from, to]) => to <= top || from >= bottom));
    if (track < 0) track = taken.push([]) - 1;
    taken[track].push([top, bottom]);
    edge.track = track;
  }
  return taken.length;
}

function line(edge, nodes, frame) {
  const from = nodes.get(edge.from), to = nodes.get(edge.to);
  const kind = `${edge.taken ? " taken" : ""}${edge.guarded ? " guarded" : ""}`;
  const rows = span(edge, nodes);
  let path, tip, at;
  if (rows === 1) {
    const top = from.y + HEIGHT / 2, bottom = to.y - HEIGHT / 2, middle = (top + bottom) / 2;
    path = `M${from.x} ${top}C${from.x} ${middle} ${to.x} ${middle} ${to.x} ${bottom - 5}`;
    tip = `M${to.x} ${bottom}l-4 -7h8z`;
    at = [(from.x + to.x) / 2, middle + 4];
  } else {
    const side = rows > 1 ? 1 : -1;
    const edgeOf = (node) => node.x + (side * node.width) / 2;
    const x = side > 0 ? frame.right + (edge.track + 0.75) * TRACK : frame.left - (edge.track + 0.75) * TRACK;
    const down = to.y > from.y ? 1 : -1, leave = from.y + 6 * down, arrive = to.y - 6 * down, bend = 7 * side;
    path = `M${edgeOf(from)} ${leave}H${x - bend}Q${x} ${leave} ${x} ${leave + 7 * down}V${arrive - 7 * down}Q${x} ${arrive} ${x - bend} ${arrive}H${edgeOf(to) + 5 * side}`;
    tip = `M${edgeOf(to)} ${arrive}l${7 * side} -4v8z`;
    at = [x, (leave + arrive) / 2 + 4];
  }
  const parts = [svg("path", { class: `edge${kind}`, d: path }, svg("title", {}, told(edge))), svg("path", { class: `tip${edge.taken ? " taken" : ""}`, d: tip })];
  if (edge.taken > 1) parts.push(svg("text", { class: "edge-count", x: at[0], y: at[1], "text-anchor": "middle" }, `${edge.taken}`));
  return parts;
}

function told(edge) {
  const notes = [edge.taken ? `taken ${edge.taken} ×` : "not taken", edge.label, edge.guarded ? "guarded" : ""].filter(Boolean);
  return `${edge.from} → ${edge.to}: ${notes.join(", ")}`;
}

function box(node) {
  const kinds = ["node"];
  if (!node.entered) kinds.push("unseen");
  else kinds.push("entered");
  if (node.now > 0) kinds.push("now");
  if (node.failed) kinds.push("failed");
  const counts = svg("text", { class: "counts", x: node.x, y: node.y + 12 });
  if (node.entered) counts.append(svg("tspan", { "data-entered": node.entered }, `× ${node.entered}`));
  if (node.now > 0) counts.append(svg("tspan", { class: "is-now" }, `  ${node.now} now`));
  if (node.failed) counts.append(svg("tspan", { class: "is-failed" }, `  ✗ ${node.failed}`));
  return svg("g", { class: kinds.join(" "), "data-node": node.id },
    svg("rect", { x: node.x - node.width / 2, y: node.y - HEIGHT / 2, width: node.width, height: HEIGHT, rx: 7 }),
    svg("text", { class: "name", x: node.x, y: node.y + (node.entered ? -3 : 4) }, node.id),
    ...(node.entered ? [counts] : []));
}
