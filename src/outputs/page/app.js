// Keeps the pages up to date. Markup comes from the agent only; what is counted on here is what runs with time.
"use strict";

const root = document.documentElement, page = root.dataset;
const table = document.getElementById("tasks"), form = document.getElementById("filter");
const connection = document.getElementById("connection"), asOf = document.getElementById("as-of");
const drill = document.getElementById("drill");
const SILENCE = 3000, HIDDEN = 5000, ANNOUNCE = 5000, REFETCH = 250, REDRAW = 10000, REFILL = 5000;
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const byCodePoint = text => text.replace(/[\uD800-\uFFFF]/g, unit => {
  const code = unit.charCodeAt(0);
  return String.fromCharCode(code < 0xE000 ? code + 0x2000 : code - 0x800);
});
const compare = (a, b) => a < b ? -1 : a > b ? 1 : 0;

// Browsers fetch from no address with a login in it, and the page may have been opened by one.
const ask = (path, options) =>
  fetch(new URL(path, location.origin + location.pathname + location.search), { cache: "no-store", ...options });

// The agent's clock, from the frame that took the shortest way.
let ways = [+page.at - performance.now()], now = +page.at;
const agentNow = () => Math.max(...ways) + performance.now();
function learn(at) {
  const way = at - performance.now();
  // The agent's clock was set, or this machine slept.
  if (Math.abs(way - Math.max(...ways)) > 2000) ways = [];
  ways.push(way);
  if (ways.length > 20) ways.shift();
}

function duration(ms) {
  const s = Math.max(0, Math.floor(ms / 1000)), m = Math.floor(s / 60), h = Math.floor(m / 60), d = Math.floor(h / 24);
  return d ? `${d} d ${h % 24} h` : h ? `${h} h ${m % 60} min` : m ? `${m} min ${s % 60} s` : `${s} s`;
}

const RUNNING = "[data-since],[data-ago],[data-left]";
function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
function fillTexts(within) {
  for (const element of within.querySelectorAll(RUNNING)) {
    const { since, ago } = element.dataset;
    if (since) write(element, duration(now - since));
    else if (ago) write(element, duration(now - ago) + " ago");
    else {
      const meter = element.previousElementSibling;
      if (meter) write(element, duration(meter.dataset.deadline - now));
    }
  }
}
function fillMeters(within) {
  for (const meter of within.querySelectorAll("meter[data-deadline]")) {
    const value = Math.min(meter.max, Math.max(0, meter.dataset.deadline - now));
    // Less than could be seen is not worth a new picture.
    if (!value || Math.abs(value - meter.value) > meter.max / 120) meter.value = value;
  }
}
function fill(within) {
  fillTexts(within);
  fillMeters(within);
}

// Makes what is shown like what was rendered, and touches nothing that is alike: focus, selection and what is open stay.
function morph(shown, rendered) {
  if (shown.nodeType !== rendered.nodeType || shown.nodeName !== rendered.nodeName) return shown.replaceWith(rendered);
  if (shown.nodeType !== Node.ELEMENT_NODE) {
    if (shown.data !== rendered.data) shown.data = rendered.data;
    return;
  }
  const name = shown.nodeName;
  const ours = attribute => name === "TR" && attribute === "hidden" || name === "DETAILS" && attribute === "open" ||
    name === "METER" && attribute === "value";
  for (const { name: attribute } of [...shown.attributes]) {
    if (!ours(attribute) && !rendered.hasAttribute(attribute)) shown.removeAttribute(attribute);
  }
  for (const { name: attribute, value } of rendered.attributes) {
    if (!ours(attribute) && shown.getAttribute(attribute) !== value) shown.setAttribute(attribute, value);
  }
  // What is in these is written here, and the agent does not know of it.
  if (shown.matches(RUNNING) || name === "OUTPUT") return;
  const [old, young] = [[...shown.childNodes], [...rendered.childNodes]];
  young.forEach((child, at) => at < old.length ? morph(old[at], child) : shown.append(child));
  old.slice(young.length).forEach(child => child.remove());
}
function parsed(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

// What became worse, for those who hear the page: politely, and not too often.
const voice = document.createElement("p");
voice.className = "unseen";
voice.setAttribute("role", "status");
document.body.append(voice);
const worse = new Map();
let saidAt = -Infinity;
function say() {
  if (!worse.size || performance.now() - saidAt < ANNOUNCE) return;
  const news = [...worse].map(([name, verdict]) => `${name}: ${verdict}`);
  voice.textContent = news.slice(0, 3).join(", ") + (news.length > 3 ? ` and ${news.length - 3} more` : "");
  worse.clear();
  saidAt = performance.now();
}

// The rows, by name.
const rows = new Map(), seen = new Set(), moved = new Set();
let filter = {}, arranged = true, total = 0;
const watcher = table && new IntersectionObserver(entries => {
  for (const { target, isIntersecting } of entries) {
    const row = rows.get(target.dataset.task);
    if (!row || row.tr !== target) continue;
    if (isIntersecting) { seen.add(row); fill(target); } else seen.delete(row);
  }
}, { rootMargin: "200px" });

function read(row) {
  const { rank, redis, labels } = row.tr.dataset;
  if (row.rank !== +rank || row.redis !== redis || row.encoded !== labels) {
    Object.assign(row, { rank: +rank, redis, encoded: labels, labels: new URLSearchParams(labels) });
    moved.add(row);
    arranged = false;
  }
  row.words = undefined;
}
function adopt(tr) {
  const row = { tr, name: tr.dataset.task, key: byCodePoint(tr.dataset.task) };
  rows.set(row.name, row);
  read(row);
  watcher.observe(tr);
}
function put(tr) {
  const row = rows.get(tr.dataset.task);
  if (row) {
    const { rank } = row;
    morph(row.tr, tr);
    read(row);
    if (row.rank < rank) worse.set(shown(row.name), row.tr.dataset.verdict);
    fill(row.tr);
    judge(row);
  } else {
    fill(tr);
    adopt(tr);
    judge(rows.get(tr.dataset.task));
  }
}
function drop(name) {
  const row = rows.get(name);
  if (!row) return;
  watcher.unobserve(row.tr);
  seen.delete(row);
  rows.delete(name);
  row.tr.remove();
  arranged = false;
}
function pulse([name, deadline, lease, progress]) {
  const tr = rows.get(name)?.tr;
  const meter = tr?.querySelector("meter"), moment = tr?.querySelector("[data-progress]");
  if (meter && deadline !== null) {
    meter.dataset.deadline = deadline;
    if (lease) meter.max = lease;
  }
  if (moment && progress !== null) moment.dataset.ago = progress;
}

// Filter and groups, as the agent would do it.
const words = node => node.nodeType === Node.TEXT_NODE ? node.data
  : node.nodeType !== Node.ELEMENT_NODE || node.matches(RUNNING) ? "" : [...node.childNodes].map(words).join("");
const shown = text => text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, one => `\\u{${one.codePointAt(0).toString(16)}}`);
function takes(row) {
  const { text, verdict, redis, labels } = filter;
  if (verdict && verdict !== row.tr.dataset.verdict || redis && redis !== row.redis) return false;
  if (labels.some(([name, value]) => (row.labels.get(name) ?? "") !== value)) return false;
  if (!text) return true;
  row.words ??= [...row.tr.cells].map(words).join(" ").replace(/\s+/g, " ").toLowerCase();
  return row.words.includes(text);
}
function judge(row) {
  const hidden = !takes(row);
  if (row.tr.hidden === hidden) return;
  row.tr.hidden = hidden;
  arranged = false;
}
function group(row) {
  const by = filter.group;
  return by === "" ? "" : by === "redis" ? row.redis : row.labels.get(by.slice(6)) ?? "";
}
function place(parent, node, before) {
  if (node.isConnected && parent.moveBefore) parent.moveBefore(node, before);
  else parent.insertBefore(node, before);
}
function heading(body, name, count) {
  let tr = body.querySelector("tr[data-heading]");
  if (!filter.group) return tr?.remove();
  if (!tr) {
    tr = document.createElement("tr");
    tr.dataset.heading = "";
    const th = tr.appendChild(document.createElement("th"));
    th.colSpan = table.tHead.rows[0].cells.length;
    th.scope = "rowgroup";
    th.append("", document.createElement("small"));
    body.prepend(tr);
  }
  const th = tr.cells[0], title = `${shown(filter.group.replace(/^label\./, ""))}: ${shown(name) || "none"} `;
  if (th.firstChild.data !== title) th.firstChild.data = title;
  write(th.lastChild, count === 1 ? "1 task" : `${count} tasks`);
  tr.hidden = !count;
}
// Brings all rows into their groups, worst first. Only rows that must move do.
function arrange() {
  arranged = true;
  const focused = document.activeElement, bodies = new Map(), groups = new Map();
  for (const body of table.tBodies) bodies.set(body.dataset.group, body);
  for (const row of rows.values()) {
    const name = group(row);
    groups.has(name) ? groups.get(name).push(row) : groups.set(name, [row]);
  }
  if (!groups.size) groups.set("", []);
  const names = [...groups.keys()].sort((a, b) => (a === "") - (b === "") || compare(byCodePoint(a), byCodePoint(b)));
  let next = table.tBodies[0], any = false;
  for (const name of names) {
    let body = bodies.get(name);
    if (!body) {
      body = document.createElement("tbody");
      body.dataset.group = name;
    }
    bodies.delete(name);
    if (body === next) next = next.nextElementSibling;
    else place(table, body, next);
    const members = groups.get(name).sort((a, b) => a.rank - b.rank || compare(a.key, b.key));
    const count = members.reduce((count, row) => count + !row.tr.hidden, 0);
    heading(body, name, count);
    any ||= count > 0;
    let at = body.querySelector("tr[data-task]");
    for (const { tr } of members) {
      while (at && at !== tr && moved.has(rows.get(at.dataset.task))) at = at.nextElementSibling;
      if (at === tr) at = at.nextElementSibling;
      else place(body, tr, at);
    }
  }
  bodies.forEach(body => body.remove());
  moved.clear();
  if (focused?.isConnected && document.activeElement !== focused) focused.focus({ preventScroll: true });
  const none = document.getElementById("none");
  if (none) none.hidden = any;
}
function readFilter() {
  const data = new FormData(form), pairs = [...data].filter(([, value]) => value !== "");
  const value = name => data.get(name) ?? "";
  filter = {
    text: value("q").toLowerCase(), verdict: value("verdict"), redis: value("redis"), group: value("group"),
    labels: pairs.filter(([name]) => name.startsWith("label.")).map(([name, value]) => [name.slice(6), value]),
  };
  return new URLSearchParams(pairs).toString();
}
let refilling;
function refilter() {
  const query = readFilter();
  history.replaceState(null, "", query ? `?${query}` : location.pathname);
  rows.forEach(judge);
  arranged = false;
  draw();
  // There are tasks that this page does not have: the agent finds them.
  if (total > rows.size) {
    clearTimeout(refilling);
    refilling = setTimeout(refill, 300);
  }
}
let refilledAt = -Infinity, behind = false;
async function refill() {
  refilledAt = performance.now();
  try {
    const answer = await ask("");
    if (!answer.ok) throw answer;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const { boot: newBoot, sequence } = page.documentElement.dataset;
    const found = new Map([...page.querySelectorAll("#tasks tr[data-task]")].map(tr => [tr.dataset.task, tr]));
    if (!sequence) throw page;
    [...rows.keys()].filter(name => !found.has(name)).forEach(drop);
    found.forEach(tr => put(document.adoptNode(tr)));
    const [more, young] = [document.getElementById("more"), page.getElementById("more")];
    if (more && young) morph(more, young);
    else if (more) more.remove();
    else if (young) table.before(young);
    draw();
    // What happened meanwhile comes again.
    [boot, seq] = [newBoot, +sequence];
    behind = false;
    disconnect();
    connect();
  } catch {
    // The page is as it was, and what it was to be filled with does not come by itself.
    behind = true;
    clearTimeout(refilling);
    refilling = setTimeout(refill, REFILL);
  }
}
function count(counts) {
  total = 0;
  for (const [verdict, number] of Object.entries(counts)) {
    total += number;
    const link = document.querySelector(`[data-count="${verdict}"]`);
    if (link) write(link, `${number} ${verdict}`);
  }
}

// Frames wait for the browser's next picture; several make one.
let waiting = null;
function take(data, all) {
  if (!waiting) requestAnimationFrame(draw);
  if (all || !waiting) {
    waiting = { all: all || !!waiting?.all, rows: new Map(), pulses: new Map(), gone: new Set(), marks: waiting?.marks ?? [] };
  }
  for (const [name, html] of data.rows ?? []) {
    waiting.rows.set(name, html);
    waiting.pulses.delete(name);
    waiting.gone.delete(name);
  }
  for (const one of data.pulses ?? []) waiting.pulses.set(one[0], one);
  for (const name of data.gone ?? []) {
    waiting.gone.add(name);
    waiting.rows.delete(name);
    waiting.pulses.delete(name);
  }
  waiting.counts = data.counts ?? waiting.counts;
  waiting.redises = data.redises ?? waiting.redises;
  waiting.marks.push({ seq: data.seq, at: data.at });
}
function draw() {
  if (waiting) {
    const { all, rows: young, pulses, gone, counts, redises, marks } = waiting;
    waiting = null;
    if (counts) count(counts);
    if (all && total > young.size && performance.now() - refilledAt > REFILL) refill();
    else {
      if (all) [...rows.keys()].filter(name => !young.has(name)).forEach(drop);
      gone.forEach(drop);
      if (young.size) [...parsed([...young.values()].join("")).children].forEach(put);
      pulses.forEach(pulse);
    }
    if (redises) {
      const section = document.getElementById("redises")?.closest("section");
      if (section) morph(section, parsed(redises).firstElementChild);
    }
    setTimeout(mark, 0, marks);
  }
  if (!arranged) arrange();
  say();
}
// For whoever measures: these snapshots are painted.
function mark(marks) {
  performance.clearMarks("lockwatch-frame");
  for (const detail of marks) performance.mark("lockwatch-frame", { detail });
}

// The page of one task is asked for anew, and not too often.
let asking = false, askAgain = false, askedAt = 0, gone = false;
async function refetch() {
  askAgain = true;
  if (asking) return;
  asking = true;
  while (askAgain) {
    await new Promise(resolve => setTimeout(resolve, Math.max(0, askedAt + REFETCH - performance.now())));
    askAgain = false;
    askedAt = performance.now();
    try {
      const query = new URLSearchParams(location.search);
      query.set("fragment", "");
      const answer = await ask(`?${query}`);
      gone = answer.status === 404;
      const main = answer.ok && parsed(await answer.text()).querySelector("#task");
      if (main) requestAnimationFrame(() => redraw(main));
    } catch { /* The connection tells what is wrong. */ }
  }
  asking = false;
}
function redraw(main) {
  const old = document.getElementById("task"), { verdict } = old.dataset;
  morph(old, main);
  fill(old);
  if (old.dataset.verdict !== verdict) worse.set(shown(page.task), old.dataset.verdict);
  say();
}

// The stream of frames.
let { boot, sequence: seq } = page, stream = null, retry = null, pause = 0, stopped = connection.textContent, busy = false;
let heard = { date: Date.now(), time: performance.now() };
function hear(text) {
  const fields = {};
  for (const line of text.split("\n")) {
    const at = line.indexOf(": ");
    if (at > 0) fields[line.slice(0, at)] = line.slice(at + 2);
  }
  if (!fields.data) return;
  const data = JSON.parse(fields.data);
  heard = { date: Date.now(), time: performance.now() };
  [pause, busy] = [0, false];
  learn(data.at);
  write(drill, data.drill ?? "");
  if (fields.event === "beat") {
    stopped = data.stopped;
  } else {
    boot = fields.id.slice(0, fields.id.lastIndexOf("-"));
    seq = data.seq;
    if (page.task === undefined) take(data, fields.event === "all");
    else refetch();
  }
  check();
}
async function connect() {
  clearTimeout(retry);
  if (stream || document.hidden) return;
  const mine = stream = new AbortController();
  let wait = 0;
  try {
    const query = new URLSearchParams({ since: seq, boot });
    if (page.task !== undefined) query.set("task", page.task);
    const answer = await ask(`${page.live}?${query}`, { signal: mine.signal });
    busy = answer.status === 503;
    if (!answer.ok) wait = 1000 * Math.min(60, +answer.headers.get("retry-after") || 5);
    else {
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let text = ""; ;) {
        const { value, done } = await reader.read();
        if (done || stream !== mine) break;
        const frames = (text + value).split("\n\n");
        text = frames.pop();
        frames.forEach(hear);
      }
    }
  } catch { /* Refused, or broken off: again, below. */ }
  if (stream !== mine) return;
  stream = null;
  pause = Math.min(5000, pause ? pause * 2 : 250);
  retry = setTimeout(connect, Math.max(wait, pause) * (0.75 + Math.random() / 2));
}
function disconnect() {
  clearTimeout(retry);
  const old = stream;
  stream = null;
  old?.abort();
}

// What is shown may be old: that must be plain.
let told = connection.textContent && null;
function tell(before, silent, after) {
  if (told !== before + after) {
    told = before + after;
    const number = document.createElement("span");
    // The seconds are for those who look: it would be spoken each time.
    number.setAttribute("aria-hidden", "true");
    connection.replaceChildren(before, number, after);
  }
  write(connection.childNodes[1], silent);
}
function check() {
  const silence = Math.max(Date.now() - heard.date, performance.now() - heard.time);
  const silent = silence >= SILENCE;
  root.classList.toggle("stale", silent || !!stopped || gone || behind);
  if (silent) {
    tell("No word from lockwatch", ` for ${duration(silence)}`, ": what is shown may be old." +
      (busy ? " Too many pages are open; it is tried again." : ""));
    // A connection that says nothing is none.
    if (stream && silence >= 2 * SILENCE && performance.now() - connectedAt > 2 * SILENCE) reconnect();
  } else if (stopped) tell(stopped, "", "");
  else if (gone) tell("This task is not configured any more.", "", "");
  else if (behind) tell("Not all tasks could be fetched: what is shown may be old. It is tried again.", "", "");
  else if (told !== "") {
    told = "";
    connection.replaceChildren();
  }
  if (!root.classList.contains("stale")) now = agentNow();
}
let connectedAt = 0;
function reconnect() {
  connectedAt = performance.now();
  disconnect();
  connect();
}

let timer = null, second = 0, closing = null;
function tick() {
  check();
  const newSecond = Math.floor(performance.now() / 1000), full = newSecond !== second;
  second = newSecond;
  const places = table ? [...seen].map(row => row.tr) : [document.getElementById("task")].filter(Boolean);
  if (full) {
    places.forEach(fillTexts);
    if (asOf) write(asOf, asOf.dateTime = new Date(now).toISOString());
    say();
    if (page.task !== undefined && !document.hidden && performance.now() - askedAt > REDRAW) refetch();
  }
  if (full || !calm.matches) places.forEach(fillMeters);
}
function wake() {
  clearTimeout(closing);
  if (document.hidden) {
    clearInterval(timer);
    timer = null;
    closing = setTimeout(disconnect, HIDDEN);
  } else {
    timer ??= setInterval(tick, 250);
    tick();
    connect();
  }
}

if (table && form) {
  readFilter();
  for (const tr of table.querySelectorAll("tr[data-task]")) adopt(tr);
  moved.clear();
  rows.forEach(judge);
  for (const link of document.querySelectorAll("[data-count]")) {
    total += parseInt(link.textContent, 10);
    link.addEventListener("click", event => {
      if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
      event.preventDefault();
      const { verdict } = form.elements, { count } = link.dataset;
      verdict.value = verdict.value === count ? "" : count;
      refilter();
    });
  }
  form.addEventListener("input", refilter);
  form.addEventListener("submit", event => { event.preventDefault(); refilter(); });
  // A browser that comes back to the page may have kept another choice than the rows were made for.
  arrange();
}
document.addEventListener("visibilitychange", wake);
window.addEventListener("pagehide", disconnect);
window.addEventListener("pageshow", event => event.persisted && wake());
wake();

// The own switch. The content type is one that no other site's page can send.
root.classList.add("scripted");
async function flip(path, want) {
  try {
    const answer = await ask(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ want }),
    });
    if (answer.ok) return `It is ${want} now.`;
    const said = await answer.text();
    // What refuses before the path is reached, such as the rate limit, says it in plain text.
    return (answer.headers.get("Content-Type") ?? "").includes("json") ? JSON.parse(said).error : said;
  } catch {
    return "No answer: look at the switches above, and try again.";
  }
}
// One after the other, so that the last wish is the one that holds.
let flipped = Promise.resolve();
document.addEventListener("click", event => {
  const button = event.target.closest("[data-want]");
  if (!button) return;
  const row = button.parentElement, { path } = row.dataset, { want } = button.dataset, said = row.querySelector("output");
  said.textContent = "…";
  flipped = flipped.then(() => flip(path, want)).then(words => said.textContent = words);
});
