// State is in the hash of the address; a change there redraws. Without these scripts the page still has its sentences,
// the ladder, the matrix and the table in <noscript>.

const byId = (id) => document.getElementById(id);
const CHOICES = ["machine", "experiment", "semiring", "dtype", "on"];
const PER_PAGE = 100, MOST_ROWS = 48;

// Seven bits a character; what HTML reads as something else comes with the seven bits after it, as one character.
const NOT_WRITTEN = "\0\n\r<", FIRST_PAIR = 0x100;

function bytesOf(text) {
  const bytes = new Uint8Array(2 * text.length);
  let size = 0, word = 0, bits = 0;
  const take = (code) => {
    word = (word << 7) | code;
    bits += 7;
    if (bits >= 8) bytes[size++] = word >> (bits -= 8), word &= (1 << bits) - 1;
  };
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at), pair = code - FIRST_PAIR;
    if (pair >= 0) take(NOT_WRITTEN.charCodeAt(pair >> 7));
    take(pair >= 0 ? pair & 127 : code);
  }
  return bytes.subarray(0, size);
}

async function unpack(id) {
  const bytes = bytesOf(byId(id).textContent);
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

function points(rows, measure, colours) {
  const unit = { peak: "%", time: "ms", rate: rows[0]?.unit }[measure];
  const variants = {}, last = {};
  for (const row of rows) {
    const alike = (variants[row.backend] ??= []);
    if (!alike.includes(row.contender)) alike.push(row.contender);
    if (row.x !== null && !(last[row.contender]?.x > row.x)) last[row.contender] = row;
  }
  const scale = (row) => (measure === "time" ? 1 : row[measure] * row.time); // of a rate: what a call of that time gives
  return rows.filter((row) => row[measure] !== null).map((row, key) => ({
    key, x: row.x, contender: row.contender, case: row.case, kernels: row.kernels, measured: row.measured,
    commit: row.commit, remarks: row.remarks,
    y: row[measure], y_low: row[measure + "_low"], y_high: row[measure + "_high"],
    r: row.ratio, r_low: row.ratio_low, r_high: row.ratio_high,
    samples: row.samples.map((time) => (measure === "time" ? time : scale(row) / time)),
    value: `${interval(row, measure)} ${unit}`,
    speed_said: row.ratio === null || row.contender === row.reference ? "" : `${interval(row, "ratio")} times ${row.reference}`,
    samples_said: `${row.taken} in ${row.processes} process${row.processes === 1 ? "" : "es"}`,
    colour: colours[row.backend], variant: variants[row.backend].indexOf(row.contender) % 4,
    is_last: last[row.contender] === row,
  }));
}

// Names at the ends of lines, moved apart where they would overlap: a line of text is a twentieth of the height.
function spreadLabels(data, isLong) {
  const to = isLong ? Math.log : (y) => y, back = isLong ? Math.exp : (y) => y;
  const highest = to(Math.max(...data.map((point) => point.y))), lowest = isLong ? to(Math.min(...data.map((point) => point.y))) : 0;
  const gap = (highest - lowest) / 20;
  let last = -Infinity;
  for (const point of data.filter((one) => one.is_last).sort((a, b) => a.y - b.y)) {
    last = Math.max(to(point.y), last + gap);
    point.label_y = back(last);
  }
}

const span = (values) => Math.max(...values) / Math.min(...values);

function isSeries(data) {
  const places = data.map((point) => `${point.contender} ${point.x}`);
  return data.every((point) => point.x !== null) && distinct(data.map((p) => p.x)).length > 1 && new Set(places).size === places.length;
}

function lineChart(spec, data, titles, width) {
  const isWide = width > 620, xs = data.map((point) => point.x);
  const room = isWide ? 62 + 8 * Math.min(22, Math.max(...data.map((point) => point.contender.length))) : 62;
  const xScale = span(xs) > 4 && Math.min(...xs) > 0 ? { type: "log", base: 2, nice: false, padding: 12 } : { zero: false, nice: false, padding: 12 };
  const isLong = span(data.map((point) => point.y)) > 60;
  spreadLabels(data, isLong);
  spec.vconcat.forEach((panel) => { panel.width = Math.max(180, width - room); });
  each(spec, (encoding) => {
    if (encoding.x) Object.assign(encoding.x, { title: titles.x, scale: xScale });
    if (encoding.y?.title === "rate") Object.assign(encoding.y, { title: titles.y, scale: isLong ? { type: "log" } : { zero: true } });
    if (encoding.y?.title === "speed over") encoding.y.title = titles.r;
  });
  if (!isWide) spec.vconcat[0].layer = spec.vconcat[0].layer.filter((layer) => layer.mark.type !== "text");
  return spec;
}

// A row for each contender of each case where they are few, else a row for each case, without the words that all share.
function nameRows(data) {
  const places = distinct(data.map((point) => point.case)), shared = places[0].split(", ").filter((word) => places.every((place) => place.split(", ").includes(word)));
  const short = (place) => place.split(", ").filter((word) => !shared.includes(word)).join(", ");
  const isApart = distinct(data.map((point) => point.contender + point.case)).length <= MOST_ROWS;
  const order = (point) => places.indexOf(point.case);
  data.sort((a, b) => order(a) - order(b));
  for (const point of data) {
    point.row = (isApart ? [short(point.case), point.contender] : [short(point.case)]).filter(Boolean).join(": ") || point.case;
  }
  return shared.join(", ");
}

function caseChart(spec, data, titles, width) {
  const isLong = span(data.map((point) => point.y)) > 60;
  each(spec, (encoding) => {
    if (encoding.x) Object.assign(encoding.x, { title: titles.y, scale: isLong ? { type: "log", nice: false, padding: 10 } : { zero: true } });
  });
  return rowChart(spec, distinct(data.map((point) => point.row)).length, width);
}

const fitted = (spec, width) => Object.assign(spec, { width, autosize: { type: "fit-x", contains: "padding" } });

// A chart with a row for each case: its names take at most half of the width.
function rowChart(spec, count, width) {
  each(spec, (encoding) => { if (encoding.y) encoding.y.axis.labelLimit = width * (width < 500 ? 0.55 : 0.45); });
  return fitted(Object.assign(spec, { height: 22 * count }), width);
}

function each(spec, act) {
  if (spec.encoding) act(spec.encoding);
  for (const part of [...(spec.layer ?? []), ...(spec.vconcat ?? [])]) each(part, act);
}

function tooltip(value) {
  const escape = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;");
  const lines = Object.entries(value).filter(([, text]) => text !== "" && text !== "null" && text !== null);
  return `<table>${lines.map(([name, text]) => `<tr><td class="key">${escape(name)}</td><td>${escape(text)}</td></tr>`).join("")}</table>`;
}

async function embed(id, spec, data) {
  const result = await vegaEmbed(byId(id), { ...spec, datasets: { cells: data } }, { renderer: "svg", actions: false, logLevel: 1, tooltip: { formatTooltip: tooltip } });
  return result.view;
}

async function drawChart(all, page) {
  const rows = chosenRows(all), hidden = (state.get("hide") ?? "").split("|");
  const shown = rows.filter((row) => !hidden.includes(row.contender)), measure = measureOf(shown);
  showContenders(rows, hidden, page.colours);
  byId("choices").elements.y.value = measure ?? "rate";
  const data = points(shown, measure, page.colours);
  const titles = {
    y: { peak: "% of the measured peak", rate: rows[0]?.unit, time: "ms a call" }[measure],
    x: page.axes[rows[0]?.experiment], r: `speed over ${rows[0]?.reference}`,
  };
  const width = byId("plot").clientWidth, series = isSeries(data);
  const shared = series || !data.length ? "" : nameRows(data);
  byId("said").textContent = data.length
    ? `${distinct(data.map((point) => point.contender)).length} contenders, ${data.length} cells: ${titles.y}${series ? ` against ${titles.x}` : ` by case${shared && `, all of ${shared}`}`}.`
    : "Nothing to draw: choose a contender.";
  if (!data.length) return byId("plot").replaceChildren();
  const spec = structuredClone(page.charts[series ? "sizes" : "cases"]);
  spec.description = byId("said").textContent;
  return embed("plot", (series ? lineChart : caseChart)(spec, data, titles, width), data);
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

async function roofline(page) {
  const view = await embed("roofline", fitted(page.charts.roofline, byId("roofline").clientWidth), page.roofline);
  const emphasise = () => view.signal("rung", document.querySelector("details[data-rung][open]")?.dataset.rung ?? "").run();
  for (const rung of document.querySelectorAll("details[data-rung]")) {
    rung.addEventListener("toggle", () => { if (rung.open) change({ rung: rung.dataset.rung }); emphasise(); });
  }
  emphasise();
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
  const [script, text] = await Promise.all([unpack("vega"), unpack("data")]);
  new Function(script)();
  const page = JSON.parse(text), rows = rowsOf(page.cells);
  for (const row of rows) row.text = COLUMNS.map(([, said]) => said(row)).join(" ").toLowerCase();
  state = new URLSearchParams(page.first);
  readState();
  byId("choices").hidden = byId("filter").hidden = false;
  byId("cells").parentElement.hidden = false;
  const redraw = () => drawChart(rows, page);
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
  await redraw();
  whenSeen("roofline", () => roofline(page));
  whenSeen("weak-plot", () => embed("weak-plot", rowChart(page.charts.weak, page.weak.length, byId("weak-plot").clientWidth), page.weak));
  whenSeen("spread-plot", () => embed("spread-plot", fitted(page.charts.spread, byId("spread-plot").clientWidth), page.spread));
  document.documentElement.dataset.drawn = "yes";
}

main().catch((error) => { console.error(error); fallBack(error); });
