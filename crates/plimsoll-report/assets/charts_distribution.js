'use strict';
// The latency distribution on an axis of nines, and hidden timers.

/** 0.99 → 2; the axis on which each step to the right is ten times rarer. */
const nines = (q) => -Math.log10(1 - Math.min(q, 1 - 1e-12));

const SPECTRA = [
  { name: 'corrected', stroke: 'var(--series-a)', width: 2, dash: null },
  { name: 'uncorrected', stroke: 'var(--series-b)', width: 1.5, dash: '6 4' },
  { name: 'wire', stroke: INK, width: 1, dash: null },
];

/** From here on fewer than ten operations are slower. */
const rareFrom = (count) => nines(1 - 10 / Math.max(count, 11));

/** The points of a spectrum, [nines, ms]; the last one, at 100 %, stands where one operation of all is. */
function spectrumPoints(spectrum) {
  const count = spectrum.at(-1)?.[2] ?? 0;
  const end = nines(1 - 1 / Math.max(count, 2));
  const points = spectrum.filter(([, ms]) => ms > 0).map(([q, ms]) => [Math.min(nines(q), end), ms]);
  return { points, count, end };
}

function splitAt(points, x) {
  const before = points.filter((point) => point[0] <= x);
  const after = points.filter((point) => point[0] >= x);
  if (before.length && after.length && before.at(-1) !== after[0]) after.unshift(before.at(-1));
  return [before, after];
}

const NINES_TICKS = [0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999, 0.9999999];

CHARTS.percentiles = ({ views, view, width, narrow, height, choice }) => {
  const isLinear = choice('scale') === 'linear';
  const several = views.length > 1;
  const sets = several
    ? views.slice(0, 4).map((one, index) => ({ ...overlaid(index), spectrum: one.spectrum?.corrected ?? [] }))
    : SPECTRA.map((set) => ({ ...set, spectrum: view.spectrum?.[set.name] ?? [] }));
  const found = sets.map((set) => ({ ...set, ...spectrumPoints(set.spectrum) })).filter((set) => set.points.length > 1);
  if (!found.length) return null;
  const end = d3.max(found, (set) => set.end);
  const { deadline, name } = goalOf(view);
  const goalQ = Number(name.slice(1)) / 100;
  const values = found.flatMap((set) => set.points.map((point) => point[1]));
  const isGoalNear = deadline && deadline <= d3.max(values) * 30 && deadline >= d3.min(values) / 30;
  if (isGoalNear) values.push(deadline);
  const ticks = NINES_TICKS.map(nines).filter((tick) => tick <= end * 1.02);
  const labels = [];
  const marks = found.flatMap((set) => {
    const [sure, rare] = splitAt(set.points, rareFrom(set.count));
    const options = { stroke: set.stroke, strokeWidth: set.width };
    labels.push({ at: set.points.at(-1), text: set.label ?? set.name, stroke: set.stroke });
    return [
      sure.length > 1 ? line(sure, { ...options, strokeDasharray: set.dash }) : null,
      rare.length > 1 ? line(rare, { ...options, strokeDasharray: '1 4', strokeLinecap: 'round' }) : null,
    ];
  });
  const ends = custom((scales) => labels.map(({ at: [x, y], text }) => label(text, scales.x(x) - 4, scales.y(y) - 8, { anchor: 'end', priority: 1, weight: 600 })));
  const corner = isGoalNear && goalQ ? custom((scales, frame) => {
    const [x, y] = [scales.x(nines(goalQ)), scales.y(deadline)];
    if (!(y >= frame.top && x <= frame.right)) return [];
    return [
      element('path', { d: `M${x},${frame.top}V${y}H${frame.right}`, fill: 'none', stroke: INK, 'stroke-width': 1.5, 'stroke-dasharray': '12 5', class: 'goal' }),
      label(`${name} below ${trimmed(deadline)} ms`, frame.right - 2, y - 5, { anchor: 'end', priority: 3, weight: 600 }),
    ];
  }) : null;
  const drawn = panel({
    width, height: height(360, 280), narrow,
    x: {
      domain: [0, end * 1.02], ticks: narrow ? ticks.filter((_, index) => index % 2 === 0 || ticks.length < 5) : ticks,
      format: (tick) => quantileText(NINES_TICKS.find((q) => nines(q) === tick) ?? 1 - 10 ** -tick), title: `share of operations that were faster${narrow ? '' : ' (each step ten times rarer)'}`,
      grid: true,
    },
    y: isLinear ? { domain: [0, d3.max(values) * 1.05], title: 'latency, ms', format: trimmed } : { domain: logDomain(values, 1), log: true, title: 'latency, ms (log)', format: trimmed },
    margin: { right: 20 },
    marks: [...marks, whiskersOf(view, several), corner, ends],
  });
  const first = found[0];
  const spots = first.points.map(([x, ms], row) => ({ x: drawn.toX(x), y: drawn.toY(ms), row, entries: spectrumEntries(found, x) }));
  return {
    panels: [{ ...drawn, points: spots }],
    legend: found.map((set) => ({ text: several ? set.label : LATENCY_WORDS[set.name], sample: lineSample(set.stroke, { width: set.width, dash: set.dash }) }))
      .concat({ text: 'dotted: fewer than 10 operations', sample: lineSample('var(--secondary)', { dash: '1 4' }) }),
  };
};

const LATENCY_WORDS = {
  corrected: 'corrected: from the intended start',
  uncorrected: 'uncorrected: from the actual send',
  wire: 'wire: to the arrival of the answer',
};

function spectrumEntries(sets, x) {
  const share = ['share faster', quantileText(Number((1 - 10 ** -x).toPrecision(7)))];
  return [share, ...sets.map((set) => {
    const near = set.points.find((point) => point[0] >= x - 1e-9);
    return [set.label ?? set.name, near ? shown(near[1], 'ms') : NOT_MEASURED];
  })];
}

/** Intervals of quantiles, where they are known. */
function whiskersOf(view, several) {
  const intervals = view.spectrum?.intervals ?? [];
  if (several || !intervals.length) return null;
  return custom((scales) => intervals.map(([q, low, high]) => (low > 0 ? whisker(scales.x(nines(q)), scales.y(low), scales.y(high), INK) : null)));
}

const STRETCHES = { operation: 'answers', opening: 'connecting', lifetime: 'life of connections', idle: 'idle connections' };

CHARTS.cliffs = ({ view, width, narrow }) => {
  const cliffs = view.summary?.cliffs ?? [];
  const probed = (view.summary?.timers ?? []).filter((timer) => timer.after_ms > 0);
  const longest = view.summary?.longest_timer;
  const all = [
    ...cliffs.map((cliff) => ({
      at: cliff.at_ms, row: STRETCHES[cliff.stretch] ?? cliff.stretch, sure: cliff.confidence !== 'possible',
      text: `${shown(cliff.at_ms / 1000, 's')}, ${trimmed(cliff.share * 100)} %${cliff.label ? `, ${cliff.label}` : ''}`,
    })),
    ...probed.map((timer) => ({ at: timer.after_ms, row: 'timeout probe', sure: true, text: `${shown(timer.after_ms / 1000, 's')}${timer.label ? `, ${timer.label}` : ''}` })),
  ];
  if (!all.length) return null;
  const rows = [...new Set(all.map((cliff) => cliff.row))];
  const ends = [longest?.answer_ms, longest?.connection_ms, longest?.probe_ms].filter((value) => value > 0);
  const domain = logDomain([...all.map((cliff) => cliff.at), ...ends], 1);
  const rowHeight = 56;
  const top = 10;
  const flags = custom((scales, frame) => all.map((cliff) => {
    const x = scales.x(cliff.at);
    const base = frame.top + (rows.indexOf(cliff.row) + 1) * rowHeight - 8;
    const isRight = x > (frame.left + frame.right) / 2;
    return [
      element('line', { x1: x, x2: x, y1: base, y2: base - 26, stroke: INK, 'stroke-width': 1.5, 'stroke-dasharray': cliff.sure ? null : '2 2' }),
      element('path', { d: `M${x},${base - 26}l${isRight ? -8 : 8},4l${isRight ? 8 : -8},4Z`, fill: cliff.sure ? INK : 'var(--background)', stroke: INK }),
      label(cliff.text, x + (isRight ? -11 : 11), base - 16, { anchor: isRight ? 'end' : 'start', priority: 3 }),
    ];
  }));
  const names = custom((scales, frame) => rows.map((row, index) => {
    const y = frame.top + (index + 1) * rowHeight - 8;
    return [
      element('line', { x1: frame.left, x2: frame.right, y1: y, y2: y, stroke: 'var(--grid)' }),
      element('text', { x: frame.left, y: y - 36, 'text-anchor': 'start', fill: 'var(--secondary)' }, row),
    ];
  }));
  const horizon = Math.max(0, ...ends);
  const end = horizon ? custom((scales, frame) => {
    const x = scales.x(horizon);
    return [
      hatch(x, frame.top, frame.right - x, frame.bottom - frame.top),
      element('line', { x1: x, x2: x, y1: frame.top, y2: frame.bottom, stroke: 'var(--axis)' }),
    ];
  }) : null;
  const drawn = panel({
    width, height: rows.length * rowHeight + top + 44, narrow,
    x: { domain, log: true, title: 'duration, ms (log)', format: short },
    y: { domain: [0, 1], ticks: [], title: '' },
    margin: { left: 10, top },
    marks: [end, names, flags],
  });
  const points = byX(all.map((cliff, row) => ({ x: drawn.toX(cliff.at), y: null, row, entries: [['after', shown(cliff.at, 'ms')], ['what', cliff.row], ['timer', cliff.text]] })));
  return {
    panels: [{ ...drawn, points, note: horizon ? `A timer longer than ${shown(horizon / 1000, 's')} would not have been seen.` : undefined }],
    legend: all.some((cliff) => !cliff.sure) ? [{ text: 'dotted flag: possibly', sample: lineSample(INK, { width: 1.5, dash: '2 2' }) }] : [],
  };
};
