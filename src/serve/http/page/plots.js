// The page's pictures, drawn as SVG. Nothing here knows of the server.

const byId = (id) => document.getElementById(id);

/** An SVG element with attributes and children; a string becomes text. */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** A number for reading: three digits that matter, with a true minus. */
export function number(x) {
  if (x === null || x === undefined || !Number.isFinite(x)) return "–";
  const size = Math.abs(x);
  const text = size !== 0 && (size < 1e-3 || size >= 1e5) ? x.toExponential(2) : String(Number(x.toPrecision(3)));
  return text.replaceAll("-", "−");
}

/** A whole number with thin spaces between thousands. */
export const whole = (n) => n.toLocaleString("en").replaceAll(",", "\u202f");

/** The colour of t in [−1, 1], as in the program's own heat maps: white for 0, reds above, blues below. */
export function diverging(t) {
  const size = Math.min(Math.abs(t), 1);
  const hue = ((t > 0 ? 38 : 255) * Math.PI) / 180;
  const chroma = Math.min(0.26 * size, 0.14);
  const [light, a, b] = [1 - 0.55 * size, chroma * Math.cos(hue), chroma * Math.sin(hue)];
  const l = (light + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (light - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (light - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  const encoded = linear.map((v) => {
    const cut = Math.min(Math.max(v, 0), 1);
    return Math.round(255 * (cut <= 0.0031308 ? 12.92 * cut : 1.055 * cut ** (1 / 2.4) - 0.055));
  });
  return `rgb(${encoded.join(" ")})`;
}

/** The loss over steps on a logarithmic axis. Points are {step, loss}; `steps` is where the axis ends. */
export function drawCurve(points, steps) {
  const picture = byId("curve");
  const [width, height, left, right, top, bottom] = [picture.clientWidth || 600, 220, 52, 10, 8, 38];
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const positive = points.map((p) => p.loss).filter((v) => v > 0);
  const last = Math.max(steps ?? 0, points.at(-1)?.step ?? 1, 1);
  const means = running(points, Math.max(8, Math.ceil(points.length / 8)));
  // About three decades below the top of the line: near convergence losses are noise around 0, whose small values say nothing.
  const top10 = Math.log10(Math.max(...means.map((p) => p.loss), ...positive, 1e-30));
  const line10 = Math.log10(Math.min(...means.map((p) => p.loss).filter((v) => v > 0), 10 ** top10));
  const high = Math.ceil(top10);
  const low = Math.min(Math.floor(Math.max(line10, top10 - 3)), high - 1);
  const x = (step) => left + ((width - left - right) * step) / last;
  const y = (loss) => {
    const t = loss > 0 ? (Math.log10(loss) - low) / (high - low) : 0;
    return height - bottom - (height - top - bottom) * Math.min(Math.max(t, 0), 1);
  };
  const axes = [];
  const every = Math.ceil((high - low) / 5);
  for (let power = low; power <= high; power += every) {
    const at = y(10 ** power);
    axes.push(svg("line", { class: "grid", x1: left, x2: width - right, y1: at, y2: at }));
    axes.push(svg("text", { x: left - 6, y: at + 4, "text-anchor": "end" }, powerOfTen(power)));
  }
  for (const share of [0, 0.5, 1]) {
    const anchor = share === 0 ? "start" : share === 1 ? "end" : "middle";
    const step = Math.round(share * last);
    axes.push(svg("text", { x: x(step), y: height - bottom + 16, "text-anchor": anchor }, whole(step)));
  }
  axes.push(svg("text", { x: left + (width - left - right) / 2, y: height - 5, "text-anchor": "middle" }, "step"));
  byId("curve-axes").replaceChildren(...axes);
  byId("curve-dots").replaceChildren(...points.map((p) => svg("circle", { cx: x(p.step), cy: y(p.loss), r: 1.6 })));
  const path = means.map((p, i) => `${i ? "L" : "M"}${x(p.step).toFixed(1)} ${y(p.loss).toFixed(1)}`).join("");
  byId("curve-line").setAttribute("d", path);
}

/** The mean of each point and up to `window − 1` before it. */
function running(points, window) {
  return points.map(({ step }, i) => {
    const recent = points.slice(Math.max(0, i + 1 - window), i + 1);
    return { step, loss: recent.reduce((sum, p) => sum + p.loss, 0) / recent.length };
  });
}

function powerOfTen(power) {
  const raised = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
  return power === 0 ? "1" : "10" + [...String(power)].map((c) => raised[c]).join("");
}

/** What an effect says, for tooltips, read-outs and screen readers. */
function sentence({ names, members, in_members }, row, column, value) {
  if (row === column) return `${names[row]}: no effect on itself is shown`;
  const share = members && value ? `, in ${in_members[row][column]} of ${members} averaged fits` : "";
  return `${names[column]} → ${names[row]}: ${number(value)}${share}`;
}

// Listened to outside of the picture: Chromium lets Tab stop at SVG elements that listen for focus themselves.
let showCell = () => {};
byId("effects").parentElement.addEventListener("focusin", (event) => showCell(event.target));

/** The effects as a grid of cells. Arrow keys, Home and End move between them. */
export function drawEffects(effects) {
  const { names, matrix } = effects;
  const picture = byId("effects");
  const count = names.length;
  const label = 16 + 7 * Math.min(Math.max(...names.map((n) => n.length), 2), 14);
  const room = (picture.parentElement.clientWidth || 480) - label - 16;
  const cell = Math.min(Math.max(Math.floor(room / count), 18), count > 8 ? 44 : 64);
  const size = label + cell * count + 2;
  picture.setAttribute("viewBox", `0 0 ${size} ${size}`);
  picture.setAttribute("width", size);
  picture.setAttribute("height", size);
  const largest = Math.max(...matrix.flat().map((v) => Math.abs(v ?? 0))) || 1;
  const short = (name) => (name.length > 14 ? name.slice(0, 13) + "…" : name);
  const rowHeads = names.map((name, j) =>
    svg("text", { class: "head", x: label - 6, y: label + (j + 0.5) * cell + 4, "text-anchor": "end" }, short(name)));
  const level = Math.max(...names.map((n) => n.length)) * 8 < cell;
  const columnHeads = names.map((name, i) => {
    if (level) return svg("text", { class: "head", x: label + (i + 0.5) * cell, y: label - 6, "text-anchor": "middle" }, name);
    const [x, y] = [label + (i + 0.5) * cell + 4, label - 6];
    return svg("text", { class: "head", x, y, transform: `rotate(-90 ${x} ${y})` }, short(name));
  });
  const cells = [];
  const rows = matrix.map((values, j) => svg("g", { role: "row" }, ...values.map((value, i) => {
    const text = sentence(effects, j, i, value);
    const rect = svg("rect", {
      class: j === i ? "cell self" : "cell", role: "gridcell", tabindex: j + i === 0 ? 0 : -1, "aria-label": text,
      x: label + i * cell, y: label + j * cell, width: cell, height: cell,
    }, svg("title", {}, text));
    if (j !== i) rect.setAttribute("fill", diverging((value ?? 0) / largest));
    Object.assign(rect.dataset, { row: j, column: i });
    cells.push(rect);
    return rect;
  })));
  const body = svg("g", { role: "rowgroup" }, ...rows);
  picture.replaceChildren(svg("g", { "aria-hidden": "true" }, ...rowHeads, ...columnHeads), body);

  showCell = (rect) => {
    if (!rect.dataset.row) return;
    byId("readout").textContent = rect.getAttribute("aria-label");
    rowHeads.forEach((head, j) => head.classList.toggle("on", j === Number(rect.dataset.row)));
    columnHeads.forEach((head, i) => head.classList.toggle("on", i === Number(rect.dataset.column)));
  };
  const where = (rect) => [Number(rect.dataset.row), Number(rect.dataset.column)];
  body.addEventListener("mouseover", (event) => showCell(event.target));
  body.addEventListener("click", (event) => move(...where(event.target)));
  body.addEventListener("keydown", (event) => {
    const [j, i] = where(event.target);
    const to = {
      ArrowUp: [j - 1, i], ArrowDown: [j + 1, i], ArrowLeft: [j, i - 1], ArrowRight: [j, i + 1], Home: [j, 0], End: [j, count - 1],
    }[event.key];
    if (!to) return;
    event.preventDefault();
    move(...to);
  });
  function move(row, column) {
    if (!(row >= 0 && column >= 0 && row < count && column < count)) return;
    const next = cells[row * count + column];
    picture.querySelector('[tabindex="0"]')?.setAttribute("tabindex", -1);
    next.setAttribute("tabindex", 0);
    next.focus();
  }
  byId("readout").textContent = "Point at a cell, or move through them with the arrow keys.";
  drawScale(largest);
}

function drawScale(largest) {
  const parts = 40;
  byId("scale-bar").setAttribute("viewBox", `0 0 ${parts} 1`);
  byId("scale-bar").setAttribute("preserveAspectRatio", "none");
  byId("scale-bar").replaceChildren(...Array.from({ length: parts }, (_, k) =>
    svg("rect", { x: k, y: 0, width: 1.05, height: 1, fill: diverging((2 * (k + 0.5)) / parts - 1) })));
  byId("scale-low").textContent = number(-largest);
  byId("scale-high").textContent = number(largest);
}

/** All effects but those of 0, the strongest first. */
export function strongest(effects) {
  const edges = [];
  effects.matrix.forEach((values, to) => values.forEach((value, from) => {
    if (from !== to && value) edges.push({ from, to, value, text: sentence(effects, to, from, value) });
  }));
  return edges.sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
}

/** Variables on a circle, and an arrow for each edge, bent so that the two directions of a pair stay apart. */
export function drawGraph(names, edges) {
  const count = names.length;
  // Drawn at the size it is shown at, so that names stay readable on a small screen.
  const size = Math.min(byId("graph").parentElement.clientWidth || 480, 520, 220 + 30 * count);
  const node = Math.max(Math.min(20, (1.2 * size) / count), 9);
  const radius = size / 2 - node - 4;
  const place = (k) => {
    const angle = (2 * Math.PI * k) / count - Math.PI / 2;
    return [size / 2 + radius * Math.cos(angle), size / 2 + radius * Math.sin(angle)];
  };
  const largest = Math.max(...edges.map((e) => Math.abs(e.value)), 0) || 1;
  // The strongest last, on top of the others.
  const arrows = [...edges].reverse().map((edge) => {
    const [[ax, ay], [bx, by]] = [place(edge.from), place(edge.to)];
    const [dx, dy] = [bx - ax, by - ay];
    const [cx, cy] = [(ax + bx) / 2 - 0.14 * dy, (ay + by) / 2 + 0.14 * dx];
    const strength = Math.abs(edge.value) / largest;
    const wide = 1 + 3.5 * strength;
    // The arrow ends where the curve meets the node, and points along it there.
    const length = Math.hypot(bx - cx, by - cy) || 1;
    const [ux, uy] = [(bx - cx) / length, (by - cy) / length];
    const head = 6 + 1.6 * wide;
    const [tx, ty] = [bx - ux * (node + 1), by - uy * (node + 1)];
    const [ex, ey] = [tx - ux * head * 0.8, ty - uy * head * 0.8];
    const corners = [[tx, ty], [tx - ux * head - uy * head * 0.45, ty - uy * head + ux * head * 0.45],
      [tx - ux * head + uy * head * 0.45, ty - uy * head - ux * head * 0.45]];
    return svg("g", { class: edge.value > 0 ? "raises" : "lowers", opacity: 0.35 + 0.6 * strength },
      svg("path", { d: `M${ax} ${ay}Q${cx} ${cy} ${ex} ${ey}`, "stroke-width": wide }),
      svg("polygon", { points: corners.map((c) => c.join(",")).join(" ") }),
      svg("title", {}, edge.text));
  });
  const nodes = names.map((name, k) => {
    const [cx, cy] = place(k);
    const letters = Math.max(2, Math.floor(node / 3.2));
    const text = svg("text", { x: cx, y: cy }, name.length > letters ? name.slice(0, letters - 1) + "…" : name);
    return svg("g", {}, svg("circle", { class: "node", cx, cy, r: node }), text, svg("title", {}, name));
  });
  byId("graph").setAttribute("width", size);
  byId("graph").setAttribute("height", size);
  byId("graph").replaceChildren(...arrows, ...nodes);
}

/** A histogram as points of a density, smoothed by the weights 1 4 6 4 1. */
function density({ low, high, counts }) {
  const width = (high - low) / counts.length || 1;
  const total = counts.reduce((sum, c) => sum + c, 0) || 1;
  const points = [];
  for (let k = -3; k < counts.length + 3; k++) {
    const sum = [1, 4, 6, 4, 1].reduce((s, weight, o) => s + weight * (counts[k + o - 2] ?? 0), 0);
    points.push([low + (k + 0.5) * width, sum / 16 / total / width]);
  }
  return points;
}

/** Small pictures of densities, one per variable; `update` draws the moved ones over those at rest. */
export class Densities {
  constructor(rest) {
    this.cards = rest.map((variable) => {
      const at = { name: variable.name, rest: variable, curve: density(variable.histogram) };
      at.picture = svg("svg", { viewBox: "0 0 100 60", preserveAspectRatio: "none", role: "img" });
      at.low = document.createElement("span");
      at.high = document.createElement("span");
      const ends = document.createElement("div");
      ends.className = "ends";
      ends.append(at.low, at.high);
      at.caption = document.createElement("figcaption");
      at.figure = document.createElement("figure");
      at.figure.dataset.name = variable.name;
      at.figure.append(at.caption, at.picture, ends);
      return at;
    });
    byId("densities").replaceChildren(...this.cards.map((at) => at.figure));
    this.update(null, null);
  }

  /** Axes begin anew; until then they only grow, so that pictures do not jump while a slider moves. */
  forgetAxes() {
    for (const at of this.cards) at.axes = null;
  }

  update(moved, given) {
    this.cards.forEach((at, k) => this.#draw(at, moved?.[k] ?? null, at.name === given));
  }

  #draw(at, moved, given) {
    const curves = [["rest", at.curve, at.rest.mean]];
    if (moved) curves.push(["moved", density(moved.histogram), moved.mean]);
    const points = curves.flatMap(([, curve]) => curve);
    const xs = points.map((p) => p[0]);
    const old = at.axes ?? { low: Infinity, high: -Infinity, peak: 0 };
    at.axes = {
      low: Math.min(old.low, ...xs), high: Math.max(old.high, ...xs), peak: Math.max(old.peak, ...points.map((p) => p[1])),
    };
    const { low, high, peak } = at.axes;
    const x = (v) => ((100 * (v - low)) / (high - low || 1)).toFixed(2);
    const y = (v) => (60 - (56 * v) / (peak || 1)).toFixed(2);
    at.picture.replaceChildren(...curves.flatMap(([kind, curve, mean]) => [
      svg("path", { class: kind, d: "M" + curve.map((p) => `${x(p[0])} ${y(p[1])}`).join("L") }),
      svg("line", { class: kind, x1: x(mean), x2: x(mean), y1: 0, y2: 60 }),
    ]));
    const mean = (moved ?? at.rest).mean;
    const means = moved ? `${number(at.rest.mean)} → ${number(mean)}` : number(mean);
    const name = document.createElement("strong");
    name.textContent = at.name;
    at.caption.replaceChildren(name, document.createElement("br"), means);
    at.picture.setAttribute("aria-label", `Density of ${at.name}, mean ${means}`);
    at.figure.dataset.mean = mean;
    at.figure.classList.toggle("given", given);
    [at.low.textContent, at.high.textContent] = [number(low), number(high)];
  }
}
