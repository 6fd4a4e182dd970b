// A graph with counts. Nodes stand in rows, by the longest way from the start; edges to the next row go straight down,
// those that skip rows pass on the right, those that lead back on the left.

import { el, svg } from "./tools.js";

const ROW = 66, HEIGHT = 38, GAP = 16, PAD = 8, TRACK = 13, LETTER = 8;
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
  const nodes = new Map(stretch.nodes.map((node, index) => [node.id, { ...node, index, width: Math.max(84, node.id.length * LETTER + 20, counted(node).join("  ").length * LETTER + 12) }]));
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
      node.first = node === row[0];
      node.last = node === row.at(-1);
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
  const { points, at } = span(edge, nodes) === 1 ? straight(from, to) : around(edge, from, to, frame);
  const [x, y] = points.at(-1), [beforeX, beforeY] = points.at(-2);
  const way = [Math.sign(x - beforeX), Math.sign(y - beforeY)];
  const tip = way[1] ? `M${x} ${y}l-4 ${-7 * way[1]}h8z` : `M${x} ${y}l${-7 * way[0]} -4v8z`;
  points[points.length - 1] = [x - 5 * way[0], y - 5 * way[1]];
  const parts = [
    svg("path", { class: `edge${kind}`, d: span(edge, nodes) === 1 ? curve(points) : rounded(points) }, svg("title", {}, told(edge))),
    svg("path", { class: `tip${edge.taken ? " taken" : ""}`, d: tip }),
  ];
  if (edge.taken > 1) parts.push(svg("text", { class: "edge-count", x: at[0], y: at[1], "text-anchor": "middle" }, `${edge.taken}`));
  return parts;
}

function straight(from, to) {
  const top = from.y + HEIGHT / 2, bottom = to.y - HEIGHT / 2, middle = (top + bottom) / 2;
  return { points: [[from.x, top], [from.x, middle], [to.x, middle], [to.x, bottom]], at: [(from.x + to.x) / 2, middle + 4] };
}

// Beside the rows: out of a node's side where nothing stands next to it there, or else through the gap between rows.
function around(edge, from, to, frame) {
  const side = to.row - from.row > 1 ? 1 : -1;
  const x = side > 0 ? frame.right + (edge.track + 0.75) * TRACK : frame.left - (edge.track + 0.75) * TRACK;
  const down = Math.sign(to.y - from.y) || 1;
  const reach = (node) => node.x + (side * node.width) / 2;
  const open = (node) => (side > 0 ? node.last : node.first);
  const points = [];
  if (open(from)) points.push([reach(from), from.y + 6 * down]);
  else points.push([from.x + side * 14, from.y + (HEIGHT / 2) * down], [from.x + side * 14, from.y + (HEIGHT / 2 + 9) * down]);
  points.push([x, points.at(-1)[1]]);
  const end = open(to) ? to.y - 6 * down : to.y - (HEIGHT / 2 + 16) * down;
  points.push([x, end]);
  if (open(to)) points.push([reach(to), end]);
  else points.push([to.x + side * 14, end], [to.x + side * 14, to.y - (HEIGHT / 2) * down]);
  return { points, at: [x, (points[0][1] + end) / 2 + 4] };
}

function curve(points) {
  return `M${points[0].join(" ")}C${points.slice(1).map((point) => point.join(" ")).join(" ")}`;
}

function rounded(points) {
  let path = `M${points[0].join(" ")}`;
  for (let index = 1; index < points.length - 1; index += 1) {
    const [x, y] = points[index];
    const towards = (other) => {
      const length = Math.hypot(other[0] - x, other[1] - y) || 1, bend = Math.min(7, length / 2);
      return `${x + ((other[0] - x) * bend) / length} ${y + ((other[1] - y) * bend) / length}`;
    };
    path += `L${towards(points[index - 1])}Q${x} ${y} ${towards(points[index + 1])}`;
  }
  return `${path}L${points.at(-1).join(" ")}`;
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
  const [entered, now, failed] = counted(node);
  const counts = svg("text", { class: "counts", x: node.x, y: node.y + 12 });
  if (entered) counts.append(svg("tspan", { "data-entered": node.entered }, entered));
  if (now) counts.append(svg("tspan", { class: "is-now", dx: 6 }, now));
  if (failed) counts.append(svg("tspan", { class: "is-failed", dx: 6 }, failed));
  return svg("g", { class: kinds.join(" "), "data-node": node.id },
    svg("rect", { x: node.x - node.width / 2, y: node.y - HEIGHT / 2, width: node.width, height: HEIGHT, rx: 7 }),
    svg("text", { class: "name", x: node.x, y: node.y + (node.entered ? -3 : 4) }, node.id),
    ...(node.entered ? [counts] : []));
}

function counted(node) {
  return [node.entered ? `× ${node.entered}` : "", node.now > 0 ? `${node.now} now` : "", node.failed ? `✗ ${node.failed}` : ""];
}
