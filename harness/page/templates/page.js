// State is in the hash of the address; a change there redraws. Without these scripts the page still has its sentences,
// the ladder, the matrix and the table in <noscript>.

const byId = (id) => document.getElementById(id);
const CHOICES = ["machine", "experiment", "semiring", "dtype", "on"];
const PER_PAGE = 100, MOST_ROWS = 48, MOST_STRAIGHT = 60; // the last: ratio of ends from which on an axis is logarithmic

async function unpack(id) {
  const bytes = Uint8Array.from(atob(byId(id).textContent), (one) => one.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

// ---- data -----------------------------------------------------------------------------------------------------------

function rowsOf(columns) {
  const names = Object.keys(columns);
  const read = names.map((name) => {
    const column = columns[name];
    return column.texts ? (index) => column.texts[column.at[index]] : (index) => column[index];
  });
  return columns.processes.map((_, index) => whole(Object.fromEntries(names.map((name, place) => [name, read[place](index)]))));
}

// Samples come in steps of the time; ends that follow from the rate's are left out, of the time and of percent of peak.
const SAMPLE_STEPS = 200;
const whole = (row) => ({
  ...row, samples: row.samples.map((steps) => steps * row.time / SAMPLE_STEPS),
  ...(row.rate === null || row.rate_low === null ? {}
    : { time_low: row.time * row.rate / row.rate_high, time_high: row.time * row.rate / row.rate_low }),
  ...(row.rate === null || row.rate_low === null || row.peak === null || row.peak_low !== null ? {}
    : { peak_low: row.peak * row.rate_low / row.rate, peak_high: row.peak * row.rate_high / row.rate }),
});

const number = (value) => (value === null ? "" : value >= 999.5 ? String(Math.round(value)) : value.toPrecision(3));
const interval = (row, name) =>
  row[name] === null ? "" : row[name + "_low"] === null ? `${number(row[name])} [?]`
    : `${number(row[name])} [${number(row[name + "_low"])}, ${number(row[name + "_high"])}]`;
const distinct = (values) => [...new Set(values)];

// ---- state ----------------------------------------------------------------------------------------------------------

let state = new URLSearchParams();
const isState = (hash) => hash.includes("=");
const readState = () => {
  if (isState(location.hash)) state = new URLSearchParams(location.hash.slice(1));
};
function change(values) {
  for (const [name, value] of Object.entries(values)) value ? state.set(name, value) : state.delete(name);
  history.replaceState(null, "", "#" + state);
}

// ---- the chart ------------------------------------------------------------------------------------------------------

function chosenRows(rows) {
  let left = rows.filter((row) => row.status === "ok");
  const options = {};
  for (const name of CHOICES) {
    options[name] = distinct(left.map((row) => row[name]));
    const asked = state.get(name) ?? "", value = options[name].includes(asked) ? asked : commonest(left.map((row) => row[name]));
    left = left.filter((row) => row[name] === value);
    fill(byId("choices").elements[name], options[name], value);
  }
  return left;
}

function commonest(values) {
  const counts = new Map();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts].reduce((best, entry) => (entry[1] > best[1] ? entry : best))[0];
}

function fill(select, options, value) {
  select.replaceChildren(...options.map((text) => new Option(text || "any", text, false, text === value)));
  select.disabled = options.length < 2;
}

function showContenders(rows, hidden, colours) {
  const boxes = distinct(rows.map((row) => row.contender)).map((name) => {
    const label = document.createElement("label"), box = document.createElement("input"), swatch = document.createElement("i");
    box.type = "checkbox";
    box.checked = !hidden.includes(name);
    box.value = name;
    swatch.style.background = colours[rows.find((row) => row.contender === name).backend];
    const { kernels } = rows.find((row) => row.contender === name && row.kernels) ?? { kernels: "" };
    label.append(box, swatch, kernels ? `${name} (${kernels})` : name);
    return label;
  });
  const focused = document.activeElement?.closest("#contenders") && document.activeElement.value;
  byId("contenders").replaceChildren(byId("contenders").firstElementChild, ...boxes);
  if (focused) boxes.find((label) => label.firstChild.value === focused)?.firstChild.focus();
}

function measureOf(rows) {
  const asked = state.get("y") ?? "peak";
  return [asked, "rate", "time"].find((name) => rows.some((row) => row[name] !== null));
}

// Points as those of a chart: where, value with interval, samples; and what is said of each below the pointer.
function pointOf(row, measure, unit, at) {
  const scale = measure === "time" ? 1 : row[measure] * row.time; // of a rate: what a call of that time gives
  return {
    at, value: ["", "_low", "_high"].map((end) => row[measure + end]),
    samples: measure === "ratio" ? [] : row.samples.map((time) => (measure === "time" ? time : scale / time)),
    tip: {
      contender: row.contender, case: row.case, value: `${interval(row, measure)} ${unit}`,
      speed: row.ratio === null || row.contender === row.reference ? "" : `${interval(row, "ratio")} times ${row.reference}`,
      kernels: row.kernels, samples: `${row.taken} in ${row.processes} process${row.processes === 1 ? "" : "es"}`,
      measured: row.measured, commit: row.commit, remarks: row.remarks,
    },
  };
}

// Variants of one backend share its colour: markers and lines tell them apart.
function lookOf(rows, contender, colours) {
  const { backend } = rows.find((row) => row.contender === contender);
  const alike = distinct(rows.filter((row) => row.backend === backend).map((row) => row.contender)).indexOf(contender) % 4;
  return { color: colours[backend], marker: ["o", "s", "^", "D"][alike], linestyle: ["-", "--", ":", "-."][alike] };
}

const span = (values) => Math.max(...values) / Math.min(...values);
const scaleFor = (values) => (span(values) > MOST_STRAIGHT ? { scale: "log", limits: [null, null] } : { scale: "linear", limits: [0, null] });

function isSeries(rows) {
  const places = rows.map((row) => `${row.contender} ${row.x}`);
  return rows.every((row) => row.x !== null) && distinct(rows.map((row) => row.x)).length > 1 && new Set(places).size === places.length;
}

function lineChart(rows, measure, unit, titles, colours) {
  const names = distinct(rows.map((row) => row.contender)), xs = rows.map((row) => row.x);
  const x = { label: titles.x, scale: span(xs) > 4 && Math.min(...xs) > 0 ? "log2" : "linear", limits: [null, null], ticks: distinct(xs).sort((a, b) => a - b) };
  const series = (shown) => names.map((name) => ({
    name, look: lookOf(rows, name, colours), form: "band", across: "y",
    points: rows.filter((row) => row.contender === name && row[shown] !== null).sort((a, b) => a.x - b.x).map((row) => pointOf(row, shown, shown === measure ? unit : `times ${row.reference}`, row.x)),
  }));
  const top = { x, y: { label: titles.y, ...scaleFor(rows.map((row) => row[measure])) }, series: series(measure), rules: [], height: 300 };
  const ratio = { x, y: { label: titles.r, scale: "log", limits: [null, null] }, series: series("ratio"), rules: [{ at: 1, across: "y" }], height: 130 };
  return { panels: rows.some((row) => row.ratio !== null) ? [top, ratio] : [top], ends: true };
}

// A row for each contender of each case where they are few, else a row for each case, without the words that all share.
function caseChart(rows, measure, unit, titles, colours) {
  const places = distinct(rows.map((row) => row.case)), shared = places[0].split(", ").filter((word) => places.every((place) => place.split(", ").includes(word)));
  const short = (place) => place.split(", ").filter((word) => !shared.includes(word)).join(", ");
  const isApart = distinct(rows.map((row) => row.contender + row.case)).length <= MOST_ROWS;
  const nameOf = (row) => (isApart ? [short(row.case), row.contender] : [short(row.case)]).filter(Boolean).join(": ") || row.case;
  const ordered = rows.toSorted((a, b) => places.indexOf(a.case) - places.indexOf(b.case)), names = distinct(ordered.map(nameOf));
  const series = distinct(rows.map((row) => row.contender)).map((name) => ({
    name, look: { ...lookOf(rows, name, colours), linestyle: "" }, form: "line", across: "x",
    points: ordered.filter((row) => row.contender === name).map((row) => pointOf(row, measure, unit, names.indexOf(nameOf(row)))),
  }));
  const panel = { x: { label: titles.y, ...scaleFor(rows.map((row) => row[measure])) }, y: { names }, series, rules: [] };
  return { panels: [panel], shared: shared.join(", ") };
}

function showChart(all, page) {
  const rows = chosenRows(all), hidden = (state.get("hide") ?? "").split("|"), shown = rows.filter((row) => !hidden.includes(row.contender));
  const measure = measureOf(shown) ?? "rate", told = shown.filter((row) => row[measure] !== null), unit = { peak: "%", time: "ms", rate: rows[0]?.unit }[measure];
  showContenders(rows, hidden, page.colours);
  byId("choices").elements.y.value = measure;
  const titles = {
    y: { peak: "% of the measured peak", rate: rows[0]?.unit, time: "ms a call" }[measure],
    x: page.axes[rows[0]?.experiment], r: `speed over ${rows[0]?.reference}`,
  };
  byId("said").textContent = "Nothing to draw: choose a contender.";
  byId("plot").replaceChildren();
  if (!told.length) return;
  const series = isSeries(told), chart = (series ? lineChart : caseChart)(told, measure, unit, titles, page.colours);
  byId("said").textContent = `${distinct(told.map((row) => row.contender)).length} contenders, ${told.length} cells: ${titles.y}`
    + (series ? ` against ${titles.x}.` : ` by case${chart.shared && `, all of ${chart.shared}`}.`);
  draw("plot", chart, byId("said").textContent);
}

// ---- charts: the data of harness/report/figures/chart.py as SVG -----------------------------------------------------

const ROW = 22, HEIGHT = 260, LETTER = 6.7;
const SYMBOLS = { s: "M-4-4H4V4H-4Z", "^": "M0-5L5 4H-5Z", v: "M0 5L5-4H-5Z", D: "M0-6L5 0L0 6L-5 0Z" }, CIRCLE = "M-4 0A4 4 0 1 0 4 0A4 4 0 1 0-4 0Z";
const DASHES = { "--": "6 3", "-.": "8 3 2 3", ":": "2 3" };

function svg(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function ticksOf(axis, low, high) {
  const range = (from, to) => Array.from({ length: Math.max(0, to - from + 1) }, (_, index) => from + index);
  const inside = (values) => values.filter((value) => value >= low && value <= high);
  if (axis.scale !== "linear" && axis.ticks?.length) {
    const kept = [];
    for (const tick of inside(axis.ticks)) if (!kept.length || tick >= 1.4 * kept.at(-1)) kept.push(tick);
    return kept;
  }
  const decades = axis.scale === "linear" ? [] : range(Math.floor(Math.log10(low)), Math.ceil(Math.log10(high)));
  const logarithmic = inside(decades.flatMap((power) => (decades.length > 4 ? [10 ** power] : [10 ** power, 3 * 10 ** power])));
  if (logarithmic.length > 2) return logarithmic;
  const rough = (high - low) / 6, power = 10 ** Math.floor(Math.log10(rough)), step = power * [1, 2, 5, 10].find((times) => times * power >= rough);
  return range(Math.ceil(low / step), Math.floor(high / step)).map((count) => count * step);
}

// From values to pixels: what is left open of the limits of an axis follows from the values that are on it.
function scaleOf(axis, values, from, to) {
  const far = axis.scale === "linear" ? (value) => value : Math.log;
  const known = values.filter((value) => value !== null && Number.isFinite(far(value)));
  const ends = [Math.min, Math.max].map((of, end) => axis.limits[end] ?? of(...known));
  const room = 0.04 * (far(ends[1]) - far(ends[0])) || 0.2 * (axis.scale === "linear" ? Math.abs(ends[1]) || 1 : 1);
  const [low, high] = ends.map((value, end) => far(value) + (axis.limits[end] === null || ends[0] === ends[1] ? (end ? room : -room) : 0));
  const back = axis.scale === "linear" ? (value) => value : Math.exp;
  return { at: (value) => from + ((far(value) - low) / (high - low)) * (to - from), ticks: ticksOf(axis, back(low), back(high)) };
}

const plain = (axis, value) => String(Number((value * (axis.factor ?? 1)).toPrecision(6)));
const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}\u2026` : text);

function drawPanel(panel, width, top, { isNamed: asked, emphasised }) {
  const names = panel.y.names ?? [], points = panel.series.flatMap((one) => one.points.map((point) => ({ ...point, across: one.across })));
  const letters = Math.floor((width * (width < 500 ? 0.5 : 0.42)) / LETTER), longest = Math.min(letters, Math.max(0, ...names.map((name) => name.length)));
  const isNamed = asked && width > 620, last = panel.series.filter((one) => one.points.length);
  const left = names.length ? 12 + LETTER * longest : 58, right = width - (isNamed ? 20 + LETTER * Math.min(22, Math.max(...last.map((one) => one.name.length))) : 12);
  const height = names.length ? ROW * names.length : panel.height ?? HEIGHT, bottom = top + height, made = svg("g", {});
  const on = (which) => points.flatMap((point) => (point.across === which ? [...point.value, point.begin ?? null] : [point.at])).concat(panel.rules.filter((rule) => rule.across === which).map((rule) => rule.at));
  const x = scaleOf(panel.x, on("x"), left, right), y = names.length ? { at: (row) => top + ROW * (row + 0.5), ticks: [] } : scaleOf(panel.y, on("y"), bottom, top);
  const place = (one, at, value) => (one.across === "y" ? [x.at(at), y.at(value)] : [x.at(value), y.at(at)]);
  const text = (words, at, across, attributes = {}) => made.append(svg("text", { x: at, y: across, ...attributes }, words));
  const line = (from, to, attributes) => svg("path", { d: `M${from}L${to}`, fill: "none", stroke: "currentColor", ...attributes });
  for (const tick of x.ticks) {
    made.append(line([x.at(tick), top], [x.at(tick), bottom], { class: "grid" }));
    text(plain(panel.x, tick), x.at(tick), bottom + 16, { "text-anchor": "middle" });
  }
  for (const tick of y.ticks) {
    made.append(line([left, y.at(tick)], [right, y.at(tick)], { class: "grid" }));
    text(plain(panel.y, tick), left - 6, y.at(tick) + 4, { "text-anchor": "end" });
  }
  names.forEach((name, row) => {
    made.append(line([left, y.at(row)], [right, y.at(row)], { class: "grid" }));
    text(cut(name, letters), left - 6, y.at(row) + 4, { "text-anchor": "end" });
    made.lastChild.append(svg("title", {}, name));
  });
  text(panel.x.label ?? "", right, bottom + 34, { "text-anchor": "end" });
  text([panel.title?.split("\n").at(-1), panel.y.label].filter(Boolean).join("; "), left, top - 8);
  for (const rule of panel.rules) {
    const at = rule.across === "y" ? [[left, y.at(rule.at)], [right, y.at(rule.at)]] : [[x.at(rule.at), top], [x.at(rule.at), bottom]];
    made.append(line(...at, { "stroke-dasharray": "4 3" }));
  }
  for (const one of last) drawSeries(made, one, { place, isLarge: Boolean(emphasised) && one.name === emphasised, isPale: Boolean(emphasised) && one.name !== emphasised, top, bottom });
  if (isNamed) {
    const ends = last.map((one) => ({ one, at: place(one, one.points.at(-1).at, one.points.at(-1).value[0])[1] })).sort((a, b) => b.at - a.at);
    ends.forEach((end, index) => { end.at = Math.min(end.at, (ends[index - 1]?.at ?? Infinity) - 15); }); // up where they meet
    ends.reverse().forEach((end, index) => { end.at = Math.max(end.at, index ? ends[index - 1].at + 15 : top); }); // down from the top
    for (const { one, at } of ends) text(cut(one.name, 22), right + 8, at + 4, { style: `fill: ${one.look.color}` });
  }
  return [made, bottom + 60];
}

function drawSeries(made, one, { place, isLarge, isPale }) {
  const colour = one.look.color, ends = (end) => one.points.filter((point) => point.value[1] !== null).map((point) => place(one, point.at, point.value[end]));
  const path = (points, attributes) => made.append(svg("path", { d: `M${points.join("L")}`, fill: "none", stroke: colour, ...attributes }));
  if (one.form === "band") made.append(svg("path", { d: `M${[...ends(1), ...ends(2).reverse()].join("L")}Z`, fill: colour, opacity: 0.16 }));
  if ((one.look.linestyle ?? "-") !== "" && one.form !== "bars") path(one.points.map((point) => place(one, point.at, point.value[0])), { "stroke-width": 1.8, "stroke-dasharray": DASHES[one.look.linestyle] ?? "" });
  for (const point of one.points) {
    const [at, across] = place(one, point.at, point.value[0]);
    if (one.form === "bars") {
      path([place(one, point.at, point.begin), [at, across]], { "stroke-width": 14 });
      continue;
    }
    if (point.begin !== null && point.begin !== undefined) path([place(one, point.at, point.begin), [at, across]], {});
    if (one.form !== "band" && point.value[1] !== null && point.value[1] < point.value[2]) path([place(one, point.at, point.value[1]), place(one, point.at, point.value[2])], { "stroke-width": 1.6 });
    if (!one.look.marker) continue;
    const words = point.tip ?? { name: one.name, value: plain({}, point.value[0]) }, said = Object.values(words).filter(Boolean).join(", ");
    const dot = svg("path", {
      class: "dot", d: SYMBOLS[one.look.marker] ?? CIRCLE, transform: `translate(${at} ${across}) scale(${isLarge ? 1.8 : 1})`, fill: one.look.markerfacecolor === "white" ? "transparent" : colour,
      stroke: colour, opacity: isPale ? 0.45 : 1, role: "img", "aria-label": said, tabindex: -1,
    });
    const samples = svg("g", { "pointer-events": "none" }, ...(point.samples ?? []).map((value) => place(one, point.at, value)).map(([u, v]) => svg("path", { d: one.across === "y" ? `M${u - 8} ${v}h16` : `M${u} ${v - 8}v16`, stroke: colour, "stroke-width": 1.5 })));
    dot.addEventListener("pointerenter", () => { made.append(samples); tell(dot, words); });
    dot.addEventListener("pointerleave", () => { samples.remove(); byId("tip").hidden = true; });
    made.append(dot);
  }
}

function tell(dot, words) {
  const tip = byId("tip"), box = dot.getBoundingClientRect();
  tip.replaceChildren(...Object.entries(words).filter(([, text]) => text).flatMap(([name, text]) => ["dt", "dd"].map((kind, at) => Object.assign(document.createElement(kind), { textContent: [name, text][at] }))));
  tip.hidden = false;
  tip.style.left = `${Math.max(8, Math.min(box.x + 14, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${box.y + box.height + tip.offsetHeight + 12 < innerHeight ? box.y + box.height + 8 : Math.max(8, box.y - tip.offsetHeight - 8)}px`;
}

function draw(id, chart, said, emphasised = "") {
  const { clientWidth: width } = byId(id), columns = width < 700 ? 1 : chart.columns ?? 1, made = [];
  let top = 24, below = 0;
  chart.panels.filter((panel) => panel.series.some((one) => one.points.length)).forEach((panel, at) => {
    const [part, end] = drawPanel(panel, width / columns, top, { isNamed: chart.ends, emphasised });
    part.setAttribute("transform", `translate(${(at % columns) * (width / columns)} 0)`);
    made.push(part);
    below = end;
    if ((at + 1) % columns === 0) top = end;
  });
  byId(id).replaceChildren(svg("svg", { role: "img", "aria-label": said, width, height: below - 18, viewBox: `0 0 ${width} ${below - 18}` }, ...made));
}

// ---- the table ------------------------------------------------------------------------------------------------------

const COLUMNS = [
  ["machine", (row) => row.machine], ["experiment", (row) => row.experiment], ["case", (row) => row.case],
  ["contender", (row) => row.contender], ["on", (row) => row.on],
  ["rate", (row) => (row.rate === null ? (row.status === "ok" ? "" : row.status) : `${interval(row, "rate")} ${row.unit}`), (row) => row.rate],
  ["time, ms", (row) => interval(row, "time"), (row) => row.time],
  ["% of peak", (row) => interval(row, "peak"), (row) => row.peak],
  ["speed over reference", (row) => interval(row, "ratio"), (row) => row.ratio],
  ["reference", (row) => row.reference], ["samples", (row) => row.taken, (row) => row.taken],
  ["processes", (row) => row.processes, (row) => row.processes], ["kernels", (row) => row.kernels],
  ["remarks", (row) => row.remarks], ["measured", (row) => row.measured], ["commit", (row) => row.commit],
];

function foundRows(rows) {
  const words = [...(state.get("q") ?? "").toLowerCase().matchAll(/"([^"]+)"|(\S+)/g)].map((match) => match[1] ?? match[2]);
  const found = rows.filter((row) => words.every((word) => row.text.includes(word)));
  const [name, direction] = (state.get("sort") ?? "").split(":");
  const column = COLUMNS.find(([head]) => head === name);
  if (!column) return found;
  const value = column[2] ?? column[1], sign = direction === "down" ? -1 : 1;
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
  return found.toSorted((a, b) => (value(a) === null) - (value(b) === null) || sign * compare(value(a), value(b)));
}

function drawTable(rows, limit = PER_PAGE) {
  const found = foundRows(rows), [sorted, direction] = (state.get("sort") ?? "").split(":");
  const head = document.createElement("tr");
  for (const [name] of COLUMNS) {
    const cell = document.createElement("th"), button = document.createElement("button");
    cell.scope = "col";
    if (name === sorted) cell.ariaSort = direction === "down" ? "descending" : "ascending";
    button.type = "button";
    button.textContent = name + (name === sorted ? (direction === "down" ? " \u2193" : " \u2191") : "");
    button.onclick = () => {
      change({ sort: `${name}:${name === sorted && direction === "down" ? "up" : "down"}` });
      drawTable(rows);
      byId("cells").querySelectorAll("th button")[COLUMNS.findIndex(([other]) => other === name)].focus();
    };
    cell.append(button);
    head.append(cell);
  }
  byId("cells").tHead.replaceChildren(head);
  byId("cells").tBodies[0].replaceChildren(...found.slice(0, limit).map((row) => {
    const line = document.createElement("tr");
    for (const [, text, value] of COLUMNS) {
      const cell = line.insertCell();
      cell.textContent = text(row);
      if (value) cell.className = "number";
    }
    return line;
  }));
  byId("found").textContent = `${found.length} of ${rows.length} cells`;
  byId("more").hidden = found.length <= limit;
  byId("more").onclick = () => drawTable(rows, limit + 5 * PER_PAGE);
}

function csv(rows) {
  const quote = (value) => (/[",\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value ?? ""));
  const numbers = ["rate", "time", "peak", "ratio"].flatMap((name) => [name, `${name}_low`, `${name}_high`]);
  const names = ["machine", "experiment", "case", "contender", "on", "status", "unit", ...numbers, "reference", "taken", "processes", "kernels", "remarks", "measured", "commit"];
  return [names, ...rows.map((row) => names.map((name) => quote(row[name] ?? "")))].map((line) => line.join(",")).join("\n") + "\n";
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = Object.assign(document.createElement("textarea"), { value: text });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

// ---- all together ---------------------------------------------------------------------------------------------------

function whenSeen(id, draw) {
  const observer = new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting)) observer.disconnect(), draw();
  }, { rootMargin: "300px" });
  if (byId(id)) observer.observe(byId(id));
}

function roofline(page) {
  const opened = () => document.querySelector("details[data-rung][open]")?.dataset.rung ?? "";
  const show = () => draw("roofline", page.roofline, page.roofline.subtitle, opened());
  for (const rung of document.querySelectorAll("details[data-rung]")) {
    rung.addEventListener("toggle", () => { if (rung.open) change({ rung: rung.dataset.rung }); show(); });
  }
  show();
}

function openRung() {
  const rung = document.querySelector(`details[data-rung="${CSS.escape(state.get("rung") ?? "")}"]`);
  if (rung) rung.open = true;
}

function fallBack(error) {
  const plain = document.createElement("div");
  plain.innerHTML = byId("plain").textContent;
  byId("table").append(plain);
  byId("said").textContent = `The charts need a newer browser (${error.message}); the table below has every cell.`;
}

async function main() {
  const page = JSON.parse(await unpack("data")), rows = rowsOf(page.cells);
  for (const row of rows) row.text = COLUMNS.map(([, said]) => said(row)).join(" ").toLowerCase();
  state = new URLSearchParams(page.first);
  readState();
  byId("choices").hidden = byId("filter").hidden = false;
  byId("cells").parentElement.hidden = false;
  const redraw = () => showChart(rows, page);
  byId("choices").addEventListener("change", (event) => {
    const boxes = [...byId("contenders").querySelectorAll("input")], name = event.target.name;
    if (name) change({ [name]: event.target.value, ...(CHOICES.includes(name) ? { hide: "" } : {}) });
    else change({ hide: boxes.filter((box) => !box.checked).map((box) => box.value).join("|") });
    redraw();
  });
  byId("filter").elements.q.addEventListener("input", (event) => { change({ q: event.target.value }); drawTable(rows); });
  byId("filter").addEventListener("submit", (event) => event.preventDefault());
  byId("copy").addEventListener("click", async () => {
    const found = foundRows(rows);
    await copy(csv(found));
    byId("found").textContent = `${found.length} cells copied`;
  });
  addEventListener("hashchange", () => {
    if (!isState(location.hash)) return;
    readState();
    openRung();
    byId(state.has("machine") ? "chart" : "table").scrollIntoView();
    byId("filter").elements.q.value = state.get("q") ?? "";
    drawTable(rows);
    redraw();
  });
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; redraw(); } });
  byId("filter").elements.q.value = state.get("q") ?? "";
  openRung();
  drawTable(rows);
  redraw();
  whenSeen("roofline", () => roofline(page));
  for (const name of ["weak", "spread"]) whenSeen(`${name}-plot`, () => draw(`${name}-plot`, page[name], page[name].subtitle));
  document.documentElement.dataset.drawn = "yes";
}

main().catch((error) => { console.error(error); fallBack(error); });
