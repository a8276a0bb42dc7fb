// One group: why it is where it is, and what happened.
import { element, eventText, language, listen, number, text, texts, time, visible } from "./live.js";
import { GroupParts } from "./group_parts.js";
import { offerPrediction } from "./what_if.js";
import { mountTimeline } from "./timeline.js";
import { whyOf } from "./timeline_words.js";

const parts = new GroupParts();
const root = document.getElementById("group");
const LINES_SHOWN = 200, KNOWN_WITHIN_MS = 1000;
let timeline = null;
let explanation = null;
offerPrediction();

function mount(document_) {
  const onMoment = (moment) => history.replaceState(null, "", `#${moment}`);
  timeline = mountTimeline(document.getElementById("timeline"), { timeline: document_, texts, language, onMoment });
  if (location.hash.length > 1) timeline.show(location.hash.slice(1));
  if (explanation) timeline.explain(explanation);
}
setTimeout(() => { if (!explanation) document.getElementById("verdict").textContent = text("group.unknown"); }, KNOWN_WITHIN_MS);
addEventListener("hashchange", () => timeline?.show(location.hash.slice(1)));

function lineRow(line) {
  const row = element("tr");
  const cells = [time(line.time_ms), number(line.generation), eventText(line.event), number(line.members), ""];
  row.append(...cells.map((cell) => element("td", "", cell)));
  const causes = line.coordinator === undefined ? line.causes ?? [] : [];
  const why = line.why ? whyOf(timeline, { causes, why: line.why }) : "";
  row.lastChild.append(element("bdi", "", visible(why, 1000)));
  return row;
}

const body = document.querySelector("#lines tbody");
let lines = []; // of the last event `history`, until the timeline behind it has their members' names
listen(`${root.dataset.api}/events`, {
  history(lines_) {
    lines = lines_;
  },
  timeline(document_) {
    if (timeline) timeline.replace(document_);
    else mount(document_);
    body.replaceChildren(...lines.slice(-LINES_SHOWN).reverse().map(lineRow));
    lines = [];
  },
  changes(changes) {
    timeline?.append(changes);
  },
  line(line) {
    body.prepend(lineRow(line));
    if (body.rows.length > LINES_SHOWN) body.lastChild.remove();
  },
  explanation(document_) {
    explanation = document_;
    document.getElementById("facts").textContent = text("group.facts", {
      generation: number(document_.generation),
      protocol: visible(document_.protocol ?? "–"),
      members: number(document_.members.length),
      lag: number(document_.lag),
    });
    parts.explain(document_);
    timeline?.explain(document_);
  },
});
