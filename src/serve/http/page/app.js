// What the page does: data in, a fit followed while it runs, its result, and interventions on it.

import { Densities, drawCurve, drawEffects, drawGraph, number, strongest, whole } from "./plots.js";

const byId = (id) => document.getElementById(id);
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const ENDED = new Set(["done", "failed", "cancelled", "unreadable"]);
const SAMPLES = 2000;
const MOST_POINTS = 600; // of the curve; with more, every second one goes
const LISTED_JOBS = 12;
const MOST_LISTED = 768; // beyond, the API has the rest

/** What the page shows at present. */
const now = {
  dataset: null,
  file: null, // where it came from
  job: null, // the fit that is shown
  follower: null, // stops following it
  points: [],
  steps: null,
  effects: null,
  densities: null,
  sampler: null,
  listed: LISTED_JOBS, // jobs in the list
};

// ---- The server ----

/** Sends a request with the token, if there is one; an answer that is an error becomes an exception with its sentence. */
async function request(path, options = {}) {
  const token = sessionStorage.getItem("token");
  const headers = { ...options.headers, ...(token && { Authorization: `Bearer ${token}` }) };
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw Object.assign(new Error("The server does not answer."), { lost: true });
  }
  if (response.ok) return response;
  if (response.status === 401) askForToken(Boolean(token));
  const body = await response.json().catch(() => ({}));
  const text = body.error ?? `The server answered ${response.status} ${response.statusText}.`;
  const retry = response.status === 429 ? Number(response.headers.get("Retry-After")) || 1 : null;
  throw Object.assign(new Error(text), { status: response.status, retry });
}

const get = async (path) => (await request(path)).json();

async function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  return (await request(path, { method: "POST", headers, body: JSON.stringify(body) })).json();
}

/** The events of a text/event-stream, as {type, data}. EventSource is of no use here: it cannot send a token. */
async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value.replaceAll("\r", "")).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const event = { type: "message", data: "" };
      for (const line of part.split("\n")) {
        if (line.startsWith("event:")) event.type = line.slice(6).trim();
        if (line.startsWith("data:")) event.data += line.slice(5);
      }
      if (event.data) yield { ...event, data: JSON.parse(event.data) };
    }
  }
}

/** Follows a job to its end, through broken connections; returns the job as it ended. */
async function follow(id, signal, on = {}) {
  for (let failures = 0; failures < 6; failures++) {
    if (failures) await pause(400 * failures);
    try {
      for await (const event of eventsOf(await request(`/v1/jobs/${id}/events`, { signal }))) {
        failures = 0;
        on[event.type]?.(event.data);
        if (event.type === "state" && ENDED.has(event.data.state)) return event.data;
      }
    } catch (error) {
      if (signal?.aborted || error.status) throw error;
    }
  }
  throw new Error("The connection to the server was lost. The job may still be running.");
}

// ---- Messages ----

function complain(error) {
  if (error.name === "AbortError" || error.status === 401) return;
  const text = document.createElement("span");
  text.textContent = error.message;
  const close = document.createElement("button");
  close.type = "button";
  close.textContent = "Close";
  close.onclick = clearAlert;
  byId("alert").replaceChildren(text, close);
  byId("alert").hidden = false;
}

function clearAlert() {
  byId("alert").hidden = true;
  byId("alert").replaceChildren();
}

/** Runs what a person asked for; what goes wrong is shown. */
function act(action) {
  return async (event) => {
    clearAlert();
    try {
      await action(event);
    } catch (error) {
      complain(error);
    }
  };
}

function askForToken(refused) {
  byId("token-title").textContent = refused ? "The server did not accept this token" : "This server requires a token";
  byId("token-section").hidden = false;
  byId("token").focus();
}

// ---- Data ----

async function upload(file) {
  if (!file) return;
  if (!/\.(csv|npz)$/i.test(file.name)) throw new Error(`${file.name} is neither a .csv nor a .npz file.`);
  now.file = file;
  byId("data-note").textContent = `Sending ${file.name}…`;
  const query = new URLSearchParams({ name: file.name });
  const targets = byId("targets").value.trim();
  if (targets && /\.csv$/i.test(file.name)) query.set("targets", targets);
  try {
    showDataset(await (await request(`/v1/datasets?${query}`, { method: "POST", body: file })).json(), file);
  } finally {
    byId("data-note").textContent = "";
  }
}

async function simulate() {
  byId("data-note").textContent = "Simulating a linear diffusion with feedback: 20 variables, 11 environments…";
  try {
    const settings = { system: "sde", dim: 20, rows: 1000, seed: 0 };
    const job = await ended(await post("/v1/jobs?wait=10", { kind: "simulate", settings }));
    showDataset(await findDataset(job.result.train));
  } finally {
    byId("data-note").textContent = "";
    listJobs();
  }
}

/** Waits for a job whose end is all that matters. */
async function ended(job) {
  const last = ENDED.has(job.state) ? job : await follow(job.id);
  if (last.state !== "done") throw new Error(last.error ?? `The job was ${last.state}.`);
  return last;
}

/** A dataset, or nothing if it was removed. */
async function findDataset(id) {
  try {
    return await get(`/v1/datasets/${id}`);
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

function showDataset(dataset, file = null) {
  Object.assign(now, { dataset, file });
  byId("dataset").hidden = byId("model-section").hidden = !dataset;
  if (!dataset) return;
  const list = document.createElement("dl");
  const facts = { file: dataset.name, rows: whole(dataset.rows), variables: dataset.variables.length, environments: dataset.environments.length };
  for (const [name, value] of Object.entries(facts)) {
    const pair = document.createElement("div");
    pair.append(Object.assign(document.createElement("dt"), { textContent: name }));
    pair.append(Object.assign(document.createElement("dd"), { textContent: value }));
    list.append(pair);
  }
  const details = document.createElement("details");
  const environments = document.createElement("ol");
  environments.start = 0;
  for (const { rows, targets } of dataset.environments) {
    const what = targets?.length ? `intervention on ${targets.join(", ")}` : "no known intervention";
    environments.append(Object.assign(document.createElement("li"), { textContent: `${what}, ${whole(rows)} rows` }));
  }
  const names = Object.assign(document.createElement("p"), { textContent: `Variables: ${dataset.variables.join(", ")}` });
  details.append(Object.assign(document.createElement("summary"), { textContent: "Variables and environments" }), names, environments);
  byId("dataset").replaceChildren(list, details);
}

// ---- Settings ----

const HINTS = {
  auto: "Fits many linear models exactly and keeps the one that best predicts left-out interventions. Averages several models if they predict about equally well. Takes about a second for 20 variables.",
  linear: "Trains a linear drift with Adam on batches. Takes seconds.",
  mlp: "Trains a small neural network for each variable with Adam. Takes up to several minutes.",
};

const usesAdam = () => byId("model").value !== "auto";

function showModelHint() {
  byId("model-hint").textContent = HINTS[byId("model").value];
  byId("steps").disabled = !usesAdam();
}

function settings() {
  const chosen = { auto: {}, linear: { model: "linear", solver: "adam" }, mlp: { model: "mlp" } }[byId("model").value];
  for (const name of ["objective", "kernel", "law"]) {
    if (byId(name).value) chosen[name] = byId(name).value;
  }
  for (const name of ["bandwidth", "lambda", "steps"]) {
    if (byId(name).value && !byId(name).disabled) chosen[name] = Number(byId(name).value);
  }
  return chosen;
}

// ---- A fit ----

async function fit() {
  if (byId("fit").getAttribute("aria-disabled") === "true") return;
  await openFit(await post("/v1/jobs", { kind: "fit", dataset: now.dataset.id, settings: settings() }));
}

/** Shows a fit, whatever its state, and follows it while it runs. */
async function openFit(job) {
  now.follower?.abort();
  now.follower = new AbortController();
  Object.assign(now, { job, points: [], steps: null });
  location.hash = job.id;
  for (const id of ["progress-text", "progress-spoken", "log"]) byId(id).textContent = "";
  byId("log-details").hidden = byId("curve-figure").hidden = byId("result").hidden = byId("intervention").hidden = true;
  byId("curve-line").setAttribute("d", "");
  now.sampler?.stop();
  byId("progress").hidden = false;
  byId("progress").scrollIntoView({ block: "nearest" });
  showState(job);
  listJobs();
  const { signal } = now.follower;
  if (!ENDED.has(job.state)) {
    const on = { state: showAndList, progress: showProgress, log: showLine };
    job = await follow(job.id, signal, on);
  }
  if (job.state === "failed") throw new Error(job.error ?? "The fit failed.");
  if (job.state !== "done") return;
  showResult(job);
  await Promise.all([showWholeCurve(job, signal), showInterventions(job, signal)]);
}

const STATES = {
  queued: "Waiting in the queue", running: "Running", done: "Done", failed: "Failed", cancelled: "Cancelled", unreadable: "Unreadable",
};

function showState(job) {
  now.job = job;
  const over = ENDED.has(job.state);
  byId("cancel").hidden = over;
  byId("fit").setAttribute("aria-disabled", !over);
  byId("progress-bar").hidden = over;
  if (job.progress) showProgress(job.progress);
  if (!over && job.progress) return;
  byId("progress-bar").removeAttribute("value");
  const took = over && job.started && job.finished ? ` after ${duration(job.finished - job.started)}` : "";
  byId("progress-text").textContent = `${STATES[job.state]}${took}${job.error ? `: ${job.error}` : "."}`;
  say(over ? `Fit: ${STATES[job.state]}${took}.` : STATES[job.state]);
}

function showAndList(job) {
  showState(job);
  listJobs();
}

function showLine({ line }) {
  byId("log-details").hidden = false;
  byId("log").append(`${line}\n`);
}

function showProgress(progress) {
  const percent = Math.floor(100 * progress.share);
  byId("progress-bar").value = progress.share;
  const parts = [`${percent} %`];
  if (progress.step !== null && progress.steps) parts.push(`step ${whole(progress.step)} of ${whole(progress.steps)}`);
  if (progress.seconds_left !== null) parts.push(`about ${duration(progress.seconds_left)} left`);
  if (progress.loss !== null) parts.push(`loss ${number(progress.loss)}`);
  byId("progress-text").textContent = parts.join(" · ");
  const tenth = Math.floor(percent / 10) * 10;
  if (tenth > 0) say(`${tenth} percent`);
  now.steps = progress.steps ?? now.steps;
  const last = now.points.at(-1)?.step ?? -1;
  if (progress.loss === null || progress.step === null || progress.step <= last) return;
  now.points.push({ step: progress.step, loss: progress.loss });
  if (now.points.length > MOST_POINTS) now.points = now.points.filter((_, k) => k % 2 === 0);
  showCurve();
}

/** Speaks through the live region, but never the same twice in a row. */
function say(text) {
  if (byId("progress-spoken").textContent !== text) byId("progress-spoken").textContent = text;
}

function showCurve() {
  byId("curve-figure").hidden = now.points.length === 0;
  if (now.points.length) drawCurve(now.points, now.steps);
}

/** Once a fit is over its log has the whole curve, also for a page that did not see it run. */
async function showWholeCurve(job, signal) {
  const name = job.files.find((file) => file.endsWith(".log.jsonl"));
  if (!name) return;
  const text = await (await request(fileOf(job, name), { signal })).text();
  const points = text.split("\n").filter(Boolean).map((line) => JSON.parse(line));
  now.points = points.filter((p) => Number.isFinite(p.step) && Number.isFinite(p.loss));
  now.steps = now.points.at(-1)?.step ?? null;
  showCurve();
}

function duration(seconds) {
  if (seconds < 10) return `${Number(seconds.toFixed(1))} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

// ---- Its result ----

const fileOf = (job, name) => `/v1/jobs/${job.id}/files/${encodeURIComponent(name)}`;

function showResult(job) {
  const { summary, stable } = job.result;
  // In standard units effects can be compared; jobs of old have one matrix only.
  const effects = { ...job.result.effects, matrix: job.result.effects.standard ?? job.result.effects.matrix };
  byId("result").hidden = false;
  const warning = stable ? "" : "\nThis model is unstable: it has no stationary law, so it cannot predict interventions.";
  byId("summary").textContent = summary.split("\n").map((line) => line.trim()).join("\n") + warning;
  byId("trust").hidden = !job.result.trust;
  byId("trust").textContent = job.result.trust ?? "";
  now.effects = effects;
  const shown = effects.names.length;
  byId("effects-note").textContent = shown < effects.variables ? `The ${shown} variables with the strongest effects, of ${whole(effects.variables)}.` : "";
  now.edges = strongest(effects);
  byId("edges").max = Math.min(now.edges.length, 200);
  byId("edges").value = Math.min(now.edges.length, Math.round(1.5 * effects.names.length));
  drawEffects(effects);
  showEdges();
  byId("files").replaceChildren(...job.files.map((name) => {
    const link = Object.assign(document.createElement("a"), { href: fileOf(job, name), download: name, textContent: name });
    link.onclick = act((event) => downloadWithToken(event, link));
    const item = document.createElement("li");
    item.append(link);
    return item;
  }));
}

function showEdges() {
  const shown = now.edges.slice(0, Number(byId("edges").value));
  byId("edges-value").textContent = `${shown.length} of ${now.edges.length}`;
  drawGraph(now.effects.names, shown);
  byId("edge-list").replaceChildren(...shown.map(({ text }) => Object.assign(document.createElement("li"), { textContent: text })));
}

/** A plain link cannot send a token, so with one the file goes through the page. */
async function downloadWithToken(event, link) {
  if (!sessionStorage.getItem("token") || link.protocol === "blob:") return;
  event.preventDefault();
  const address = URL.createObjectURL(await (await request(link.href)).blob());
  Object.assign(document.createElement("a"), { href: address, download: link.download }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

// ---- Interventions ----

/** Draws samples of a model; at most one request is on its way, and after it only the newest wish is sent. */
class Sampler {
  /** With an origin its observed rows are moved, otherwise samples are drawn from the model's law. */
  constructor(model, origin, show) {
    const start = origin ? { from: origin.id, n: Math.min(SAMPLES, origin.rows) } : { n: SAMPLES };
    Object.assign(this, { model, start, show, wish: null, busy: false, stopped: false });
  }

  /** Waits a moment, for a slider's many events at once. */
  ask(shift) {
    this.wish = shift;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#work(), 30);
  }

  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
  }

  async draw(shift) {
    const body = { kind: "sample", model: this.model, ...this.start, shift, seed: 0 };
    for (;;) {
      try {
        const job = await post("/v1/jobs?wait=10", body);
        return (await ended(job)).result.variables;
      } catch (error) {
        if (!error.retry || this.stopped) throw error;
        await pause(1000 * error.retry);
      }
    }
  }

  async #work() {
    if (this.busy) return;
    this.busy = true;
    byId("densities").setAttribute("aria-busy", "true");
    try {
      while (this.wish && !this.stopped) {
        const shift = this.wish;
        this.wish = null;
        const variables = await this.draw(shift);
        if (!this.stopped) this.show(variables, shift);
      }
    } catch (error) {
      complain(error);
    } finally {
      this.busy = false;
      byId("densities").removeAttribute("aria-busy");
    }
  }
}

/** The data that a fit was made of, if it is still there and has an environment to start from. */
async function originOf({ request }) {
  // Another file may have been chosen while the fit ran.
  const dataset = now.dataset?.id === request?.dataset ? now.dataset : await findDataset(request?.dataset);
  const environment = dataset?.environments.find(({ targets }) => !targets?.length);
  return environment ? { id: dataset.id, name: dataset.name, rows: environment.rows } : null;
}

async function showInterventions(job, signal) {
  const { model, stable } = job.result;
  if (!stable) return;
  const origin = await originOf(job);
  if (signal.aborted) return;
  byId("anchor-field").hidden = !origin;
  byId("anchor-text").textContent = origin ? `Move the observed rows of ${origin.name}` : "";
  byId("anchor").onchange = act(() => startSampling(model, origin, signal));
  await startSampling(model, origin, signal);
}

/** Shows the rest that interventions start from: observed rows, or the model's law. */
async function startSampling(model, origin, signal) {
  now.sampler?.stop();
  const sampler = new Sampler(model, byId("anchor").checked ? origin : null, (variables, shift) => {
    const [[name, value]] = Object.entries(shift);
    if (name !== byId("target").value) return;
    now.densities.update(value ? variables : null, value ? name : null);
    byId("sample-note").textContent = value ? `Shown: ${name} shifted by ${number(value)}.` : "Shown: without a shift.";
  });
  now.sampler = sampler;
  const rest = await sampler.draw({});
  if (signal.aborted || sampler.stopped) return;
  now.rest = rest;
  byId("intervention").hidden = false;
  const target = byId("target").value;
  byId("target").replaceChildren(...rest.map(({ name }) => new Option(name, name)));
  if (rest.some(({ name }) => name === target)) byId("target").value = target;
  now.densities = new Densities(rest);
  chooseTarget();
}

/** The slider spans about five standard deviations of the variable, either way, in a hundred round steps. */
function chooseTarget() {
  const { sd } = now.rest.find(({ name }) => name === byId("target").value);
  const wide = 5 * (sd > 0 ? sd : 1);
  const unit = 10 ** Math.floor(Math.log10(wide));
  const most = unit * [1, 2, 5, 10].find((k) => k * unit >= wide * 0.999);
  Object.assign(byId("shift"), { min: -most, max: most, step: most / 50 });
  now.densities.forgetAxes();
  moveTo(0);
}

function moveTo(value) {
  byId("shift").value = value;
  shiftMoved();
}

function shiftMoved() {
  const value = Number(Number(byId("shift").value).toPrecision(6));
  byId("shift-value").textContent = number(value);
  byId("shift").setAttribute("aria-valuetext", `${byId("target").value} shifted by ${number(value)}`);
  if (value === 0) now.densities.update(null, null);
  now.sampler.ask({ [byId("target").value]: value });
}

// ---- Recent jobs ----

/** Shows the newest jobs, as many as were asked for. */
async function listJobs() {
  try {
    const { jobs, next } = await get(`/v1/jobs?kind=fit&limit=${now.listed}`);
    byId("jobs").replaceChildren(...jobs.map(jobItem));
    if (!jobs.length) byId("jobs").textContent = "None yet.";
    byId("more-jobs").hidden = !next || now.listed >= MOST_LISTED;
  } catch (error) {
    complain(error);
  }
}

async function listMoreJobs() {
  now.listed = Math.min(2 * now.listed, MOST_LISTED);
  await listJobs();
}

function jobItem(job) {
  const what = `Fit of ${job.dataset_name ?? "a dataset"}`;
  const button = document.createElement("button");
  button.type = "button";
  button.setAttribute("aria-current", job.id === now.job?.id);
  const texts = { what, how: job.about, state: STATES[job.state].toLowerCase(), when: ago(job.created) };
  for (const [name, text] of Object.entries(texts)) {
    button.append(Object.assign(document.createElement("span"), { className: name, textContent: text }), " ");
  }
  button.onclick = act(() => openJob(job.id));
  const item = document.createElement("li");
  item.append(button);
  return item;
}

function ago(seconds) {
  const age = Date.now() / 1000 - seconds;
  return age < 5 ? "just now" : age < 86400 ? `${duration(Math.round(age))} ago` : new Date(1000 * seconds).toLocaleDateString();
}

async function openJob(id) {
  const job = await get(`/v1/jobs/${id}`);
  if (job.kind === "simulate") return showDataset(await findDataset((await ended(job)).result.train));
  if (job.kind !== "fit") throw new Error("Only fits and simulations can be opened here.");
  if (!job.request) throw new Error(job.error ?? "This job cannot be read.");
  showDataset(await findDataset(job.request.dataset));
  await openFit(job);
}

// ---- Wiring ----

const openFromAddress = act(async () => {
  const id = location.hash.slice(1);
  if (/^[0-9a-f]{32}$/.test(id) && id !== now.job?.id) await openJob(id);
});

byId("file").onchange = act(() => upload(byId("file").files[0]));
byId("targets").onchange = act(() => upload(now.file));
byId("simulate").onclick = act(simulate);
byId("settings").onsubmit = (event) => {
  event.preventDefault();
  act(fit)();
};
// A wrong value in closed settings could not be shown to the person otherwise.
byId("settings").addEventListener("invalid", () => { byId("more").open = true; }, true);
byId("model").onchange = byId("objective").onchange = showModelHint;
byId("more-jobs").onclick = act(listMoreJobs);
byId("cancel").onclick = act(() => post(`/v1/jobs/${now.job.id}/cancel`, {}));
byId("edges").oninput = showEdges;
byId("target").onchange = chooseTarget;
byId("shift").oninput = shiftMoved;
byId("reset").onclick = () => moveTo(0);
byId("token-form").onsubmit = (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", byId("token").value);
  byId("token-section").hidden = true;
  start();
};

// A file may be dropped anywhere: beside the box the browser would leave the page to show it.
document.addEventListener("dragover", (event) => {
  event.preventDefault();
  byId("drop").classList.add("over");
});
document.addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) byId("drop").classList.remove("over");
});
document.addEventListener("drop", (event) => {
  event.preventDefault();
  byId("drop").classList.remove("over");
  act(() => upload(event.dataTransfer.files[0]))();
});

let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  showCurve();
  if (byId("result").hidden) return;
  drawEffects(now.effects);
  showEdges();
});
addEventListener("hashchange", openFromAddress);

function start() {
  showModelHint();
  openFromAddress();
  listJobs();
}
start();
