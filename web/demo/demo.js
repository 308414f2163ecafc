// The demo's page: events from GET /stream/board (Server-Sent Events), counts from GET /status.json once a second.
// Nothing that was received is ever used as HTML.
"use strict";

const rowsMax = 60;        // shown
const secondsMax = 60;     // in a sparkline
const rateSeconds = 5;     // a rate is the mean of the last seconds
const newsSeconds = 15;    // between two announcements to screen readers

const byId = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

function make(name, className, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

// --- Destinations -------------------------------------------------------------------------------------------------

const destinations = new Map();  // name -> Destination

class Destination {
  constructor(name) {
    this.name = name;
    this.topics = [];
    this.samples = [];  // counts, one a second
    this.card = make("article", "card");
    const top = make("div", "card-top");
    this.pill = make("span", "pill", "waiting");
    top.append(make("h3", "", name), this.pill);
    const list = make("dl");
    this.delivered = this.addFigure(list, "delivered");
    this.rate = this.addFigure(list, "per second");
    this.failed = this.addFigure(list, "failed tries");
    this.pending = this.addFigure(list, "waiting");
    this.spark = svg("svg", { class: "spark", viewBox: `0 0 ${secondsMax} 26`, preserveAspectRatio: "none", "aria-hidden": "true" });
    const note = make("p", "note");
    this.peak = make("span");
    this.skipped = make("span");
    note.append(this.peak, this.skipped);
    this.card.append(top, list, this.spark, note);
  }

  addFigure(list, label) {
    const figure = make("div");
    const value = make("dd", "", "0");
    figure.append(make("dt", "", label), value);
    list.append(figure);
    return value;
  }

  update(counts) {
    this.topics = Array.isArray(counts.topics) ? counts.topics : [];
    this.samples.push({ delivered: counts.delivered || 0, failed: counts.failed || 0, pending: counts.pending || 0 });
    if (this.samples.length > secondsMax + rateSeconds) this.samples.shift();
    const steps = this.steps();
    const recent = steps.slice(-rateSeconds);
    const rate = recent.length === 0 ? 0 : recent.reduce((sum, step) => sum + step.delivered, 0) / recent.length;
    const failing = recent.some((step) => step.failed > 0);
    const last = this.samples[this.samples.length - 1];
    this.delivered.textContent = number.format(last.delivered);
    this.rate.textContent = rate < 10 ? rate.toFixed(1) : number.format(Math.round(rate));
    this.failed.textContent = number.format(last.failed);
    this.failed.dataset.state = failing ? "warn" : "";
    this.pending.textContent = number.format(last.pending);
    this.state = failing ? "retrying" : rate > 0 ? "delivering" : last.pending > 0 ? "waiting" : "idle";
    this.pill.textContent = this.state;
    this.pill.dataset.state = this.state;
    this.skipped.textContent = counts.skipped ? `${number.format(counts.skipped)} not for it` : "";
    this.draw(steps.slice(-secondsMax));
  }

  // What happened in each second. A relay that was started anew counts from 0.
  steps() {
    const rise = (after, before) => (after >= before ? after - before : after);
    return this.samples.slice(1).map((after, i) => ({
      delivered: rise(after.delivered, this.samples[i].delivered),
      failed: rise(after.failed, this.samples[i].failed),
    }));
  }

  draw(steps) {
    if (steps.length === 0) return;
    const peak = Math.max(1, ...steps.map((step) => step.delivered));
    const x = (i) => secondsMax - steps.length + i + 0.5;
    const y = (value) => 22 - (value / peak) * 20;
    const points = steps.map((step, i) => `${x(i)},${y(step.delivered).toFixed(2)}`);
    const parts = [svg("line", { class: "base", x1: 0, x2: secondsMax, y1: 22, y2: 22 })];
    if (points.length > 1) {
      parts.push(svg("polygon", { class: "area", points: `${x(0)},22 ${points.join(" ")} ${x(steps.length - 1)},22` }));
      parts.push(svg("polyline", { class: "rate", points: points.join(" ") }));
    }
    steps.forEach((step, i) => {
      if (step.failed > 0) parts.push(svg("rect", { class: "failed", x: x(i) - 0.35, y: 23.5, width: 0.7, height: 2.5 }));
    });
    this.spark.replaceChildren(...parts);
    this.peak.textContent = `last minute; ${number.format(peak)} a second at most`;
  }
}

function svg(name, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

function showStatus(status) {
  const list = byId("destinations");
  for (const counts of status.destinations) {
    if (!destinations.has(counts.name)) {
      if (destinations.size === 0) list.replaceChildren();
      const destination = new Destination(counts.name);
      destinations.set(counts.name, destination);
      list.append(destination.card);
    }
    destinations.get(counts.name).update(counts);
  }
}

async function pollStatus() {
  try {
    const answer = await fetch("/status.json", { signal: AbortSignal.timeout(5000) });
    if (answer.ok) showStatus(await answer.json());
  } catch (error) {
    // The dot in the corner tells that the server is away; the next poll tries again.
  }
  setTimeout(pollStatus, 1000);
}

// --- Events -------------------------------------------------------------------------------------------------------

const known = new Set();  // ids: after a reconnect some events may come again
let arrived = [];         // not shown yet, oldest first
let seen = 0;
let announced = 0;

// '*' stands for any text, as in the destinations' own rules.
function matches(pattern, text) {
  const parts = pattern.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`).test(text);
}

function goesTo(event) {
  return [...destinations.values()].filter(
    (one) => one.topics.length === 0 || one.topics.some((pattern) => matches(pattern, event.topic)));
}

function rowOf(event) {
  const row = make("tr", "fresh");
  const time = make("td", "", clock.format(new Date(event.occurred_at)));
  const about = event.aggregate_type ? `${event.aggregate_type} ${event.aggregate_id}` : event.key || "–";
  const to = make("td", "to");
  for (const destination of goesTo(event)) to.append(make("span", "tag", destination.name));
  row.append(time, make("td", "topic", event.topic), make("td", "about", about), to);
  return row;
}

function showArrived() {
  const list = byId("events");
  const rows = arrived.slice(-rowsMax).map(rowOf).reverse();
  arrived = [];
  list.prepend(...rows);
  while (list.rows.length > rowsMax) list.rows[list.rows.length - 1].remove();
  byId("seen").textContent = number.format(seen);
  byId("no-events").hidden = true;
}

function receive(message) {
  const event = JSON.parse(message.data);
  if (known.has(event.id)) return;
  known.add(event.id);
  if (known.size > 2000) known.delete(known.values().next().value);
  seen += 1;
  if (arrived.length === 0) requestAnimationFrame(showArrived);
  arrived.push(event);
  if (arrived.length > rowsMax) arrived.shift();
}

function showLink(state, text) {
  byId("link").dataset.state = state;
  byId("link-text").textContent = text;
}

function follow() {
  const source = new EventSource("/stream/board");
  source.onopen = () => showLink("live", "live");
  source.onmessage = receive;
  source.onerror = () => {
    showLink("waiting", "reconnecting");
    // A browser reconnects by itself, except after an answer that was no stream.
    if (source.readyState === EventSource.CLOSED) setTimeout(follow, 2000);
  };
}

// One sentence now and then instead of every row: a screen reader could not keep up.
function announce() {
  const states = [...destinations.values()].map((one) => `${one.name} is ${one.state}`).join(", ");
  if (seen > announced) byId("news").textContent = `${seen - announced} new events. ${states}.`;
  announced = seen;
}

pollStatus();
follow();
setInterval(announce, newsSeconds * 1000);
