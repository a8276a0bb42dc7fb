// The colours of a timeline, as the style sheet has them for light and dark: the canvas reads them from elements of each class.

import { PALETTE_SIZE } from "./timeline_drawing.js";
import { element } from "./timeline_words.js";

const PROBED = ["ink", "paper", "faint", "line", "empty", "unowned-ink", "dead", "phase-0", "phase-1"];

export function colourProbes() {
  const probes = element("div", "timeline-probes");
  probes.setAttribute("aria-hidden", "true");
  for (const name of [...Array(PALETTE_SIZE).keys()].map((n) => `owner-${n}`).concat(PROBED)) probes.append(element("i", name));
  return probes;
}

// The colours in force.
export function coloursOf(probes, context) {
  const colours = { owners: [], font: `12px ${getComputedStyle(probes).fontFamily}` };
  for (const probe of probes.children) {
    const fill = getComputedStyle(probe).backgroundColor, name = probe.className;
    if (name.startsWith("owner-")) colours.owners.push({ fill, text: isLight(fill) ? "#000" : "#fff" }); else colours[name] = fill;
  }
  colours.phases = [colours["phase-0"], colours["phase-1"]];
  const lines = (draw, colour) => {
    const tile = Object.assign(document.createElement("canvas"), { width: 8, height: 8 }), drawn = tile.getContext("2d");
    drawn.strokeStyle = drawn.fillStyle = colour;
    drawn.lineWidth = 1.6;
    drawn.beginPath();
    draw(drawn);
    drawn.stroke();
    return context.createPattern(tile, "repeat");
  };
  const slope = (by) => (tile) => { for (const x of [0, 8, 16]) { tile.moveTo(x - Math.max(by, 0), 8); tile.lineTo(x - Math.max(-by, 0), 0); } };
  colours.unowned = lines(slope(8), colours["unowned-ink"]);
  colours.patterns = [null, lines(slope(-8), colours.paper),
    lines((tile) => tile.fillRect(2, 2, 3, 3), colours.paper), lines((tile) => { tile.moveTo(0, 4); tile.lineTo(8, 4); }, colours.paper)];
  return colours;
}

function isLight(colour) {
  const [red, green, blue] = colour.match(/\d+/g).map((part) => (Number(part) / 255) ** 2.2);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18;
}
