// Texts and the server's sentences in the reader's language: a sentence comes in English and as data, which the texts word.
import { causeText } from "./timeline_causes.js";

const NAMED = 3; // of a list of names, as in coterie.text.phrase

/** texts: name -> text of that language; escape: makes a text from outside one that can be shown. */
export function wordsOf(texts, escape) {
  /** A text of texts.json, with its {names} filled in. */
  const text = (name, values = {}) => (texts[name] ?? name).replace(/\{(\w+)\}/g, (_, key) => values[key] ?? "");

  /** An event of the journal; one that the texts do not have stays as it is. */
  const eventText = (event) => texts[`event.${event.replaceAll(" ", "_")}`] ?? escape(event);

  /** A length of time in one unit. */
  const span = (ms) => {
    if (ms < 1000) return text("span.ms", { n: Math.round(ms) });
    const seconds = ms / 1000;
    if (seconds < 120) return text("span.s", { n: seconds < 10 && seconds % 1 ? seconds.toFixed(1) : Math.round(seconds) });
    if (seconds < 7200) return text("span.min", { n: Math.round(seconds / 60) });
    if (seconds < 172800) return text("span.h", { n: Math.round(seconds / 3600) });
    return text("span.d", { n: Math.round(seconds / 86400) });
  };

  const worded = ({ name, values }) => {
    if (name === "cause" && values.kind) values = { text: causeText(values, texts, (who) => who) };
    return text(`phrase.${name}`, Object.fromEntries(Object.entries(values).map(([key, value]) => [key, wordedValue(key, value)])));
  };

  const wordedValue = (key, value) => {
    if (Array.isArray(value)) {
      if (value.some((part) => typeof part === "object")) return value.map(worded).join(texts["timeline.and"]);
      const names = value.slice(0, NAMED).join(", ");
      return value.length > NAMED ? `${names} ${text("timeline.more", { count: value.length - NAMED })}` : names;
    }
    if (typeof value === "object") return worded(value);
    if (key === "event") return eventText(value);
    return key.endsWith("_ms") ? span(value) : String(value);
  };

  /** A sentence of the server, where the texts have words for it; else its English. */
  const sentence = (english, data) => (texts[`phrase.${data?.name}`] === undefined ? english : worded(data));

  return { text, sentence, eventText, span };
}
