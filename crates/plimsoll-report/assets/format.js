'use strict';
// Numbers as the terminal shows them: thousands separators, three significant digits, SI prefixes.

const NOT_MEASURED = '–';

const isNumber = (value) => typeof value === 'number' && Number.isFinite(value);

/** 1234567.4 → "1,234,567". */
function grouped(value) {
  const whole = Math.round(Math.abs(value)).toString().replace(/\B(?=(\d{3})+$)/g, ',');
  return value < 0 && whole !== '0' ? `−${whole}` : whole;
}

/** One digit behind the point, a half to the even one: 13.25 is 13.2, and 13.45, whose nearest number is less, 13.4. */
function oneDigit(value) {
  return (value % 1 === 0.25 ? value - 0.05 : value).toFixed(1);
}

/** Three significant digits: "0.554", "20.0", "1,107". */
function three(value) {
  if (value === 0) return '0';
  // First: 99.99 has the digits of 100.
  const size = Number(Math.abs(value).toPrecision(3));
  if (size >= 100) return grouped(value);
  if (size < 1e-6) return value.toExponential(1);
  const text = size.toFixed(2 - Math.floor(Math.log10(size)));
  return value < 0 ? `−${text}` : text;
}

/** As few digits as tell it apart: ticks of axes. */
function trimmed(value) {
  const text = three(value);
  return text.includes('.') && !text.includes('e') ? text.replace(/0+$/, '').replace(/\.$/, '') : text;
}

function prefixed(value, unit, show) {
  const prefixes = ['', 'k', 'M', 'G', 'T', 'P'];
  const size = Math.abs(value);
  let power = size < 1000 ? 0 : Math.min(Math.floor(Math.log10(size) / 3), prefixes.length - 1);
  // 999,950 B are 1.00 MB, not 1,000 kB.
  if (power > 0 && power < prefixes.length - 1 && Number((size / 1000 ** power).toPrecision(3)) >= 1000) power += 1;
  const scaled = value / 1000 ** power;
  const text = power === 0 && Number.isInteger(value) ? grouped(value) : show(scaled);
  return `${text} ${prefixes[power]}${unit}`.trimEnd();
}

/** A figure with its unit; units are those of the columns that the report names. */
function shown(value, unit) {
  if (value === null || value === undefined || value === '') return NOT_MEASURED;
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (!isNumber(value)) return unit === 'verdict' ? String(value).toUpperCase() : String(value);
  switch (unit) {
    case 'count': return Number.isInteger(value) || Math.abs(value) >= 100 ? grouped(value) : three(value);
    case 'ms': return `${milliseconds(value)} ms`;
    case 'us': return `${three(value)} µs`;
    case 's': return `${Math.abs(value) >= 100 ? grouped(value) : oneDigit(value)} s`;
    case '/s': return `${perSecond(value)}/s`;
    case 'B': return prefixed(value, 'B', three);
    case 'B/s': return prefixed(value, 'B/s', three);
    case 'bit/s': return prefixed(value, 'bit/s', three);
    case 'Hz': return prefixed(value, 'Hz', three);
    case 'share': return `${trimmed(value * 100)} %`;
    case 'quantile': return `${quantileText(value)}`;
    default: return unit ? `${three(value)} ${unit}` : three(value);
  }
}

/** As `three`, but no finer than microseconds. */
const milliseconds = (value) => (value < 0.9995 ? value.toFixed(3) : three(value));

function perSecond(value) {
  return Math.abs(value) >= 100 ? grouped(value) : oneDigit(value);
}

/** 0.9995 → "99.95 %". */
function quantileText(q) {
  if (q >= 1) return '100 %';
  const nines = Math.max(0, Math.ceil(-Math.log10(1 - q)) - 1);
  return `${(q * 100).toFixed(Math.min(nines, 8)).replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '')} %`;
}

/** Counts on an axis: "0", "500", "20k", "1.5M". */
function short(value) {
  const prefixes = ['', 'k', 'M', 'G', 'T', 'P'];
  const size = Math.abs(value);
  if (size < 10000) return size >= 1000 ? grouped(value) : trimmed(value);
  const power = Math.min(Math.floor(Math.log10(size) / 3), prefixes.length - 1);
  return trimmed(value / 1000 ** power) + prefixes[power];
}

/** The largest prefix of which `most` bytes are at least one, and what it is called. */
function byteScale(most) {
  const power = most < 1000 ? 0 : Math.min(Math.floor(Math.log10(most) / 3), 5);
  return { divisor: 1000 ** power, unit: ['', 'k', 'M', 'G', 'T', 'P'][power] + 'B' };
}
