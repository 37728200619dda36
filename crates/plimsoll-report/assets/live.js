'use strict';
// The page of a run that goes on: the document is fetched, then grows by patches. Nothing is drawn that is not seen.

const live = { isPaused: false, waiting: [], isDirty: false, source: null, heardAt: 0 };

function startLiveControls() {
  const pause = document.getElementById('pause');
  pause.hidden = false;
  pause.addEventListener('click', () => {
    live.isPaused = !live.isPaused;
    pause.setAttribute('aria-pressed', String(live.isPaused));
    pause.textContent = live.isPaused ? 'Go on' : 'Pause';
    if (!live.isPaused) {
      for (const patch of live.waiting.splice(0)) applyPatch(state.views[0], patch);
      live.isDirty = true;
      redrawLive();
    }
    showLiveState();
  });
}

function showLiveState(text) {
  const node = document.getElementById('live-state');
  const behind = live.waiting.filter((patch) => patch.kind === 'second').length;
  const answer = state.views[0]?.answer;
  const running = answer ? `running; ${answer}` : 'running';
  node.textContent = text ?? (live.isPaused ? `paused, ${behind} s behind` : running);
}

async function fetchView() {
  const late = setTimeout(() => showLiveState('waiting for the run; a browser opens at most six connections to one address: close other tabs of it'), 5000);
  const answer = await fetch('view');
  clearTimeout(late);
  if (!answer.ok) throw new Error(`the run answered ${answer.status}`);
  return answer.json();
}

async function startLive() {
  startLiveControls();
  try {
    state.views = [await fetchView()];
  } catch (error) {
    showLiveState(`cannot read the run: ${error.message}`);
    return;
  }
  addTools();
  addListeners();
  drawAll();
  document.documentElement.dataset.drawn = 'yes';
  showLiveState();
  if (state.views[0].summary) await finishLive();
  else listen();
  const isCalm = matchMedia('(prefers-reduced-motion: reduce)').matches;
  live.timer = setInterval(redrawLive, isCalm ? 5000 : 1000);
}

const PATCHES = ['second', 'host', 'trial', 'step', 'note', 'answer', 'end'];

function listen() {
  const source = new EventSource(`events?after=${state.views[0].seq ?? 0}`);
  live.source = source;
  for (const kind of PATCHES) source.addEventListener(kind, onPatch);
  source.addEventListener('reset', onReset);
  source.addEventListener('open', () => showLiveState());
  source.addEventListener('error', () => showLiveState('not connected; trying again'));
}

function onPatch(event) {
  const patch = { kind: event.type, ...JSON.parse(event.data) };
  const number = Number(event.lastEventId.split('.').at(-1));
  if (Number.isFinite(number)) patch.seq = number;
  if (live.isPaused && patch.kind !== 'end') {
    live.waiting.push(patch);
    showLiveState();
    return;
  }
  for (const waiting of live.waiting.splice(0)) applyPatch(state.views[0], waiting);
  applyPatch(state.views[0], patch);
  live.isDirty = true;
  if (patch.kind === 'answer') showLiveState();
  if (patch.kind === 'trial') sayTrial(patch.trial ?? patch);
  if (patch.kind === 'end') finishLive();
}

/** Verdicts are read to a screen reader; each second's numbers never. */
function sayTrial({ number, verdict }) {
  document.getElementById('status').textContent = `trial ${number}: ${String(verdict).toUpperCase()}`;
}

/** Another search of the command has begun. */
async function onReset() {
  live.source.close();
  state.views = [await fetchView()];
  await adoptPage();
  if (state.views[0].summary) await finishLive();
  else listen();
}

function isInSight(node) {
  const box = node.getBoundingClientRect();
  return box.bottom > -200 && box.top < innerHeight + 200;
}

function redrawLive() {
  if (document.hidden || live.isPaused || !live.isDirty || !state.views.length) return;
  state.tables = null;
  const seen = figures().filter(isInSight);
  for (const figure of seen) draw(figure);
  // What was not in sight is drawn when it is scrolled to.
  live.isDirty = seen.length < figures().length;
  growTrials(state.views[0]);
  adoptNewHosts();
}

/** The rows of the table of trials that came since it was written. */
function growTrials(view) {
  const table = document.getElementById('trials-table');
  if (!table) return;
  const body = table.tBodies[0];
  const columns = [...table.tHead.rows[0].cells];
  for (const trial of (view.trials ?? []).slice(body.rows.length)) {
    const row = body.insertRow();
    for (const head of columns) {
      const cell = row.insertCell();
      cell.className = head.className;
      const value = at(trial, head.dataset.path);
      cell.textContent = head.dataset.unit === 'verdict' ? String(value).toUpperCase() : shown(value, head.dataset.unit);
      if (isNumber(value)) cell.dataset.sort = value;
      if (head.dataset.unit === 'verdict') cell.classList.add('verdict', value);
    }
  }
}

/** That nothing more comes, and where the page is kept. */
function endText({ summary, head }) {
  if (!summary?.archive) return 'ended; nothing is kept of it but this page';
  const isKept = !['load', 'hold'].includes(head.kind) || summary.command.startsWith('lab');
  return isKept ? `ended; this page is kept as ${summary.archive}/report.html` : `ended; plimsoll report ${summary.archive} --html FILE keeps this page`;
}

/** Takes the text and the tables as the server writes them now; the charts are drawn again from the data that are here. */
async function adoptPage() {
  const answer = await fetch('./');
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
  const fresh = page.getElementById('main');
  if (!fresh) return;
  state.tables = null;
  state.drawn.clear();
  clearCursor();
  document.getElementById('main').replaceWith(document.adoptNode(fresh));
  document.title = page.title;
  addTools();
  drawAll();
}

/** When the run has ended, the page is the report: the same that a file has. */
async function finishLive() {
  live.source?.close();
  clearInterval(live.timer);
  showLiveState(endText(state.views[0]));
  document.getElementById('pause').hidden = true;
  try {
    state.views = [await fetchView()];
    await adoptPage();
  } catch {
    // The run has ended before the page could be read once more: what came is drawn, and the badge is in it.
    const badge = document.querySelector('.badge');
    if (badge) {
      badge.className = `badge ${state.views[0].badge.class}`;
      badge.textContent = state.views[0].badge.word;
    }
    drawAll();
  }
}

/** A host that was first read after the page was written has no place for its charts yet. */
function adoptNewHosts() {
  const placed = new Set(figures().map((figure) => figure.dataset.host));
  const isNew = Object.keys(state.views[0].hosts ?? {}).some((host) => !placed.has(host));
  const now = performance.now();
  if (!isNew || now - (live.adoptedAt ?? -Infinity) < 5000) return;
  live.adoptedAt = now;
  adoptPage().catch(() => {});
}
