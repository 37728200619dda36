'use strict';
// The charts of a search: the tipping point, goodput against offered load, the course of the search.

const AXIS_TITLES = {
  rate: 'offered load, requests/s', handshakes: 'offered load, handshakes/s', connections: 'connections held', storm: 'connections cut',
  'connections/s': 'offered load, connections/s', 'transactions/s': 'offered load, transactions/s',
};

/** What a search found; of one that goes on, what it raises. */
const foundOf = (view) => view.summary?.find ?? { axis: view.head.axis };

const isConnections = (find) => find?.axis === 'connections' || find?.axis === 'storm';
const loadText = (find, load) => (isConnections(find) ? grouped(load) : shown(load, '/s'));

/** Linear where the loads are near each other, else logarithmic. */
function loadAxis(find, loads) {
  const [least, most] = d3.extent(loads.filter((load) => load > 0));
  const isLog = most / least >= 20;
  const domain = isLog ? [least / 1.25, most * 1.25] : spread(least, most, 0.06);
  return { domain, log: isLog, title: `${AXIS_TITLES[find?.axis ?? 'rate'] ?? 'load'}${isLog ? ' (log)' : ''}`, format: short };
}

function spread(least, most, share) {
  const room = (most - least || Math.abs(most) || 1) * share;
  return [Math.max(0, least - room), most + room];
}

const quantileOf = (trial, name) => trial.quantiles?.[name] ?? null;

/** The first goal about latency: its quantile, as the document names it, and its limit. */
function goalOf(view) {
  const found = /(p[\d.]+)\s*<=?\s*([\d.]+)\s*(us|ms|s)/.exec(view.head.slo ?? view.summary?.find?.slo ?? '');
  if (!found) return { name: 'p99', key: 'p99', deadline: view.head.deadline_ms ?? null };
  const [, name, limit, unit] = found;
  return { name, key: name.replace('.', ''), deadline: Number(limit) * { us: 0.001, ms: 1, s: 1000 }[unit] };
}

/** The band of the interval and the lines of what else was found, over the whole height. */
function foundMarks(find, { isNarrow = false, role = null, name = '' } = {}) {
  return custom((scales, frame) => {
    const x = (load) => (isNumber(load) && load > 0 ? scales.x(load) : null);
    const inside = (px) => px !== null && px >= frame.left - 1 && px <= frame.right + 1;
    const [lower, upper, safe] = [find.lower, find.upper, find.safe].map(x);
    const nodes = [];
    // Only an interval that is claimed is a band.
    const isBand = find.outcome === 'regular';
    const sure = isNumber(find.confidence) ? ` (${trimmed(find.confidence * 100)} %)` : '';
    const stroke = role ?? INK;
    if (isBand && lower !== null && upper !== null) {
      nodes.push(element('rect', {
        x: lower, y: frame.top, width: Math.max(1, upper - lower), height: frame.bottom - frame.top,
        fill: role ?? 'var(--band)', 'fill-opacity': role ? 0.15 : 1, class: 'band',
      }));
      for (const edge of [lower, upper]) {
        nodes.push(element('line', { x1: edge, x2: edge, y1: frame.top, y2: frame.bottom, stroke, 'stroke-width': 1.5 }));
      }
      nodes.push(label(`${name}${loadText(find, find.lower)}`, lower - 3, frame.top - 6, { anchor: 'end', priority: 1, weight: 600 }));
      nodes.push(label(`${loadText(find, find.upper)}${sure}`, upper + 3, frame.top - 6, { priority: 1, weight: 600 }));
    } else if (lower !== null && inside(lower)) {
      nodes.push(element('line', { x1: lower, x2: lower, y1: frame.top, y2: frame.bottom, stroke, 'stroke-width': 1, 'stroke-dasharray': '2 3' }));
      nodes.push(label(`${name}met up to ${loadText(find, find.lower)}`, lower - 3, frame.top - 6, { anchor: 'end', priority: 1 }));
    }
    if (inside(safe)) {
      nodes.push(element('line', {
        x1: safe, x2: safe, y1: frame.top - 16, y2: frame.bottom, stroke, 'stroke-width': 1.5, 'stroke-dasharray': '8 3 2 3', class: 'safe',
      }));
      const what = isNarrow ? '' : ': 9 of 10 loads meet the SLO';
      nodes.push(label(`${name}safe ${loadText(find, find.safe)}${what}`, safe - 3, frame.top - 20, { anchor: 'end', priority: 1 }));
    }
    return nodes;
  });
}

/** Where trials contradict each other: between the lowest BAD and the highest GOOD load above it. */
function contradictionMarks(find, trials) {
  const isClaimed = isNumber(find.upper) && !find.outcome?.unstable && !find.outcome?.undecided;
  const of = (verdict) => trials.filter((trial) => trial.verdict === verdict && trial.moves_bounds).map((trial) => trial.load);
  const [low, high] = [d3.min(of('bad')), d3.max(of('good'))];
  if (isClaimed || !(low < high)) return null;
  return custom((scales, frame) => [
    hatch(scales.x(low), frame.top, scales.x(high) - scales.x(low), frame.bottom - frame.top),
  ]);
}

/** How likely the capacity is at each load: a strip under the axis. */
function likelihoodStrip(likelihood) {
  const most = d3.max(likelihood, ([, density]) => density);
  if (!(most > 0)) return null;
  return custom((scales, frame) => {
    const [low, high] = scales.x.domain();
    const inside = likelihood.filter(([load]) => load >= low && load <= high);
    if (inside.length < 2) return [];
    const base = frame.bottom + 36;
    const points = inside.map(([load, density]) => `${scales.x(load).toFixed(1)},${(base - 12 * (density / most)).toFixed(1)}`);
    const ends = [inside[0], inside.at(-1)].map(([load]) => scales.x(load).toFixed(1));
    return [
      element('path', { d: `M${ends[0]},${base}L${points.join('L')}L${ends[1]},${base}Z`, fill: 'var(--secondary)', class: 'likelihood' }),
      element('line', { x1: frame.left, x2: frame.right, y1: base + 0.5, y2: base + 0.5, stroke: 'var(--grid)' }),
    ];
  });
}

/** Verdict marks at (load, value), clipped to the frame with a triangle and the value as text. */
function trialMarks(trials, valueOf, unit, spots) {
  return custom((scales, frame) => trials.map((trial, row) => {
    const x = scales.x(trial.load);
    const value = valueOf(trial);
    const y = isNumber(value) ? scales.y(value) : null;
    const off = y === null || y < frame.top - 0.5 ? 'above' : y > frame.bottom + 0.5 ? 'below' : null;
    const py = off === 'above' ? frame.top + 8 : off === 'below' ? frame.bottom - 8 : y;
    spots.push({ x, y: py, row });
    const text = isNumber(value) ? shown(value, unit) : 'no answer';
    return [
      verdictMark({ verdict: trial.verdict, x, y: py, ring: trial.phase === 'confirm', number: trial.number, off }),
      off ? label(text, x + 9, py + 4, { priority: 6 }) : null,
    ];
  }));
}

function verdictLegend(trials) {
  const names = { good: 'GOOD', bad: 'BAD', invalid: 'INVALID, not counted' };
  const seen = new Set(trials.map((trial) => trial.verdict));
  return Object.keys(names).filter((verdict) => seen.has(verdict))
    .map((verdict) => ({ text: names[verdict], sample: verdictShape(verdict, 14, 6) }));
}

/** The trials around what was found: those far below say little, and squeeze the others together. */
function trialsNear(find, trials) {
  const [low, high] = [find.safe ?? find.lower, find.upper ?? find.lower].map((load) => load ?? d3.max(trials, (trial) => trial.load));
  return trials.filter((trial) => trial.load >= Math.min(low, find.lower ?? low) * 0.6 && trial.load <= high * 1.6);
}

CHARTS.tipping = ({ view, width, narrow, height, choice }) => {
  const find = foundOf(view);
  const all = (view.trials ?? []).filter((trial) => trial.load > 0);
  if (!all.length) return null;
  const trials = choice('trials') === 'near' ? trialsNear(find, all) : all;
  const left = all.length - trials.length;
  const goal = goalOf(view);
  const valueOf = (trial) => quantileOf(trial, goal.key) ?? quantileOf(trial, 'p99');
  const ends = [find.lower, find.upper, find.safe].filter(isNumber);
  const x = loadAxis(find, [...trials.map((trial) => trial.load), ...ends]);
  const values = trials.flatMap((trial) => [quantileOf(trial, 'p50'), valueOf(trial)]).filter((value) => value > 0);
  const ceiling = goal.deadline ? goal.deadline * 20 : Infinity;
  const shownValues = [...values.filter((value) => value <= ceiling), goal.deadline, goal.deadline ? goal.deadline * 2 : null].filter((value) => value > 0);
  if (!shownValues.length) return null;
  const y = { domain: logDomain(shownValues, 1), log: true, title: `${goal.name} of the corrected latency, ms (log)`, format: trimmed };
  const spots = [];
  const hairs = custom((scales, frame) => trials.map((trial) => {
    const px = scales.x(trial.load);
    const clip = (value) => Math.max(frame.top, Math.min(frame.bottom, scales.y(value)));
    const p50 = quantileOf(trial, 'p50');
    const value = valueOf(trial);
    const nodes = [];
    if (p50 > 0 && value > 0) {
      nodes.push(element('line', { x1: px, x2: px, y1: clip(p50), y2: clip(value), stroke: 'var(--axis)', 'stroke-width': 0.5 }));
      if (scales.y(p50) >= frame.top) nodes.push(element('circle', { cx: px, cy: clip(p50), r: 2, fill: INK }));
    }
    if (trial.interval && trial.interval[0] > 0 && scales.y(trial.interval[0]) > frame.top) {
      nodes.push(whisker(px, clip(trial.interval[0]), clip(trial.interval[1] ?? value)));
    }
    return nodes;
  }));
  const good = trials.filter((trial) => trial.verdict === 'good' && trial.moves_bounds && valueOf(trial) > 0);
  const medians = d3.rollups(good, (group) => d3.median(group, valueOf), (trial) => trial.load).sort((a, b) => a[0] - b[0]);
  const strip = view.likelihood?.length ? likelihoodStrip(view.likelihood) : null;
  const drawn = panel({
    width, height: height(420, 320) + (strip ? 18 : 0), x, y, narrow,
    margin: { top: 50, bottom: strip ? 62 : 44, right: 16 },
    marks: [
      foundMarks(find, { isNarrow: narrow }), contradictionMarks(find, trials),
      goal.deadline ? goalLine(goal.deadline, `${trimmed(goal.deadline)} ms, ${goal.name}`) : null,
      generatorCeiling(view), strip,
      medians.length > 1 ? line(medians, { strokeWidth: 1.5 }) : null,
      hairs, trialMarks(trials, valueOf, 'ms', spots),
    ],
  });
  const legendEntries = [
    ...verdictLegend(trials),
    { text: 'confirmation', sample: [element('circle', { cx: 14, cy: 6, r: 5.2, fill: 'none', stroke: INK }), verdictShape('good', 14, 6, 6)] },
    { text: 'p50 of the same trial', sample: element('circle', { cx: 14, cy: 6, r: 2, fill: INK }) },
    strip ? { text: 'under the axis: how likely the capacity lies there', sample: element('path', { d: 'M2,11C10,11 10,2 14,2S18,11 26,11Z', fill: 'var(--secondary)' }) } : null,
  ].filter(Boolean);
  if (!trials.some((trial) => trial.phase === 'confirm')) legendEntries.splice(legendEntries.findIndex(({ text }) => text === 'confirmation'), 1);
  const note = left ? `${left} ${left === 1 ? 'trial' : 'trials'} at other loads not drawn.` : undefined;
  return { panels: [{ ...drawn, points: byX(rowsIn(view.trials, trials, spots)), isScatter: true, note }], legend: legendEntries };
};

const byX = (spots) => spots.sort((a, b) => a.x - b.x);

/** The most that the generator can offer, where it was measured. */
function generatorCeiling(view) {
  const most = view.ceiling_per_s;
  if (!isNumber(most)) return null;
  return custom((scales, frame) => {
    const x = scales.x(most);
    if (!(x >= frame.left && x <= frame.right)) return [];
    return [
      hatch(x, frame.top, Math.min(8, frame.right - x), frame.bottom - frame.top),
      element('line', { x1: x, x2: x, y1: frame.top, y2: frame.bottom, stroke: INK, class: 'limit' }),
      label(`generator's limit ${shown(most, '/s')}`, x - 3, frame.top + 14, { anchor: 'end', priority: 3 }),
    ];
  });
}

CHARTS.goodput = ({ view, width, narrow, height }) => {
  const find = foundOf(view);
  const goodOf = (trial) => trial.goodput ?? null;
  const trials = (view.trials ?? []).filter((trial) => trial.load > 0 && isNumber(goodOf(trial)));
  if (!trials.length) return null;
  const most = d3.max(trials, (trial) => Math.max(trial.load, goodOf(trial))) * 1.05;
  const unit = isConnections(find) ? '' : '/s';
  const spots = [];
  const diagonal = custom((scales) => element('line', {
    x1: scales.x(0), y1: scales.y(0), x2: scales.x(most), y2: scales.y(most), stroke: 'var(--axis)', 'stroke-width': 0.7,
  }));
  const drawn = panel({
    width, height: height(420, 300), narrow,
    x: { domain: [0, most], title: AXIS_TITLES[find.axis] ?? 'offered load, requests/s' },
    y: { domain: [0, most], title: isConnections(find) ? 'connections that answered' : 'good answers, per second' },
    margin: { top: 50 },
    marks: [foundMarks({ ...find, safe: null }, { isNarrow: true }), diagonal, trialMarks(trials, goodOf, unit, spots)],
  });
  return { panels: [{ ...drawn, points: byX(rowsIn(view.trials, trials, spots)), isScatter: true }], legend: verdictLegend(trials) };
};

/** The spots of some of all trials, with the rows that these have in the table. */
function rowsIn(all, some, spots) {
  return spots.map((spot) => ({ ...spot, row: all.indexOf(some[spot.row]) }));
}

CHARTS.course = ({ view, width, narrow, height }) => {
  const find = foundOf(view);
  const trials = (view.trials ?? []).filter((trial) => trial.load > 0 && isNumber(trial.start_s));
  if (!trials.length) return null;
  const end = d3.max(trials, (trial) => trial.start_s + trial.seconds);
  const { lowers, uppers } = boundsOverTime(trials, end);
  const loads = trials.map((trial) => trial.load);
  const spots = [];
  const marks = custom((scales, frame) => trials.map((trial, row) => {
    const [from, to] = [scales.x(trial.start_s), scales.x(trial.start_s + trial.seconds)];
    const y = scales.y(trial.load);
    const middle = (from + to) / 2;
    spots.push({ x: middle, y, row });
    return [
      element('line', { x1: from, x2: to, y1: y, y2: y, stroke: 'var(--axis)', 'stroke-width': 3, 'stroke-opacity': 0.5 }),
      verdictMark({ verdict: trial.verdict, x: middle, y, ring: trial.phase === 'confirm', number: trial.number }),
      narrow || trials.length > 80 ? null : label(String(trial.number), middle, y - (trial.phase === 'confirm' ? 12 : 8), { anchor: 'middle', priority: 7, fill: 'var(--secondary)' }),
    ];
  }));
  const time = sharedTime(view, width, narrow);
  const drawn = panel({
    width, height: height(320, 280), narrow, x: time, margin: { left: TIME_MARGIN },
    y: { domain: loadAxis(find, loads).domain.map((value) => value || 1), log: d3.max(loads) / d3.min(loads) >= 4, title: `${AXIS_TITLES[find.axis] ?? 'load'}`, format: short },
    marks: [
      lowers.length > 1 ? step(lowers, { strokeWidth: 1.5 }) : null,
      uppers.length > 1 ? step(uppers, { strokeWidth: 1.5, strokeDasharray: '6 3' }) : null,
      marks,
    ],
  });
  const panels = [{ ...drawn, points: byX(rowsIn(view.trials, trials, spots)), isScatter: true, isTime: true }];
  const drift = sentinels(view, { width, narrow, time });
  if (drift) panels.push(drift);
  return {
    panels, stacked: true,
    legend: [
      ...verdictLegend(trials),
      { text: 'highest load met so far', sample: lineSample(INK, { width: 1.5 }) },
      { text: 'lowest load missed above it', sample: lineSample(INK, { width: 1.5, dash: '6 3' }) },
    ],
  };
};

/** Highest GOOD and lowest BAD load above it, as they stood over time. */
function boundsOverTime(trials, end) {
  const [lowers, uppers] = [[], []];
  const goods = [];
  const bads = [];
  for (const trial of trials) {
    if (!trial.moves_bounds || trial.verdict === 'invalid') continue;
    (trial.verdict === 'good' ? goods : bads).push(trial.load);
    const at = trial.start_s + trial.seconds;
    const lower = d3.max(goods);
    const upper = d3.min(bads.filter((load) => lower === undefined || load > lower));
    if (lower !== undefined) lowers.push([at, lower]);
    if (upper !== undefined) uppers.push([at, upper]);
  }
  for (const bounds of [lowers, uppers]) if (bounds.length) bounds.push([end, bounds.at(-1)[1]]);
  return { lowers, uppers };
}

/** What the server carried each time it was offered the same overload: does it change? */
function sentinels(view, { width, narrow, time }) {
  const seen = (view.sentinels ?? []).filter(([, goodput]) => isNumber(goodput));
  if (seen.length < 2) return null;
  const drift = view.summary?.find?.drift_per_min;
  const spots = [];
  const marks = custom((scales) => seen.map(([t, goodput]) => {
    const spot = { x: scales.x(t), y: scales.y(goodput), entries: [['time', shown(t, 's')], ['good answers', shown(goodput, '/s')]] };
    spots.push(spot);
    return element('circle', { cx: spot.x, cy: spot.y, r: 3.5, fill: INK });
  }));
  const drawn = panel({
    width, height: 170, narrow, x: time,
    y: { domain: [0, d3.max(seen, ([, goodput]) => goodput) * 1.15], title: 'good answers under the same overload, per second', format: short },
    margin: { left: TIME_MARGIN },
    marks: [line(seen, { strokeWidth: 1, stroke: 'var(--axis)' }), marks],
  });
  const note = isNumber(drift) && drift !== 0
    ? `The capacity ${drift < 0 ? 'fell' : 'rose'} by ${trimmed(Math.abs(drift) * 100)} % a minute.`
    : 'No drift was seen.';
  return { ...drawn, heading: 'Sentinels: the same overload again and again', note, points: spots, isTime: true };
}
