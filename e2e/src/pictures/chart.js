'use strict';
// A chart of a page as SVG that stands alone: what the page's style gives is written into each element.

const INHERITED = [
  'fill', 'fill-opacity', 'font-family', 'font-size', 'font-weight', 'paint-order', 'stroke', 'stroke-dasharray', 'stroke-linecap',
  'stroke-linejoin', 'stroke-opacity', 'stroke-width', 'text-anchor', 'visibility',
];
const OWN = { display: 'inline', opacity: '1' };
/** Above the chart its title, below it what the picture is of. */
const HEAD = 40;
const FOOT = 28;

function standalone(selector, title, about) {
  const svg = document.querySelector(selector);
  const copy = svg.cloneNode(true);
  const from = [svg, ...svg.querySelectorAll('*')];
  const to = [copy, ...copy.querySelectorAll('*')];
  from.forEach((node, index) => {
    const style = getComputedStyle(node);
    const outer = index ? getComputedStyle(node.parentNode) : null;
    for (const name of ['style', 'class', 'aria-labelledby', 'aria-describedby', 'aria-hidden', 'tabindex', 'role']) to[index].removeAttribute(name);
    for (const name of INHERITED) {
      const value = style.getPropertyValue(name);
      if (value !== outer?.getPropertyValue(name)) to[index].setAttribute(name, value);
      else to[index].removeAttribute(name);
    }
    for (const [name, usual] of Object.entries(OWN)) if (style.getPropertyValue(name) !== usual) to[index].setAttribute(name, style.getPropertyValue(name));
  });
  for (const node of copy.querySelectorAll('style')) node.remove();
  const { width, height } = svg.getBoundingClientRect();
  const body = getComputedStyle(document.body);
  const [wide, high] = [Math.round(width) + 32, Math.round(height) + HEAD + FOOT];
  copy.setAttribute('x', '16');
  copy.setAttribute('y', `${HEAD}`);
  copy.setAttribute('width', `${width}`);
  copy.setAttribute('height', `${height}`);
  const escape = (text) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;');
  const background = getComputedStyle(document.documentElement).backgroundColor;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${wide} ${high}" width="${wide}" height="${high}" role="img" `
    + `font-family="system-ui, 'Liberation Sans', 'DejaVu Sans', sans-serif">\n<title>${escape(title)}. ${escape(about)}</title>\n`
    + `<rect width="100%" height="100%" rx="6" fill="${background}"/>\n`
    + `<text x="16" y="26" font-size="15" font-weight="600" fill="${body.color}">${escape(title)}</text>\n`
    + new XMLSerializer().serializeToString(copy)
    + `\n<text x="16" y="${high - 10}" font-size="11" fill="${body.color}" opacity="0.8">${escape(about)}</text>\n</svg>\n`;
}
