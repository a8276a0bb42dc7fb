// What every page shares: its texts, text from outside made visible, and the stream of events.
import { wordsOf } from "./phrases.js";

export const texts = JSON.parse(document.getElementById("texts").textContent);
export const language = document.documentElement.lang;

/** The texts and the server's sentences in the reader's language. */
export const { text, sentence, eventText, span } = wordsOf(texts, visible);

/** What the server refuses, or cannot reach; "" for nothing. */
export const refusal = ({ error = "", error_phrase: phrase }) => visible(sentence(error, phrase), 1000);

const HIDDEN = new RegExp(`[${document.documentElement.dataset.hidden}]`, "gu"); // of coterie.text.hidden
const SHORT_ESCAPES = { "\t": "\\t", "\n": "\\n", "\r": "\\r" };

function escaped(character) {
  const hex = character.charCodeAt(0).toString(16);
  return SHORT_ESCAPES[character] ?? (hex.length > 2 ? `\\u${hex.padStart(4, "0")}` : `\\x${hex.padStart(2, "0")}`);
}

/** A text from outside, as one line in which every character shows; cut after `most` characters. */
export function visible(outside, most = 300) {
  const cut = outside.length > most ? outside.slice(0, most) + "…" : outside;
  return cut.replace(HIDDEN, escaped);
}

const numbers = new Intl.NumberFormat(language);
export const number = (n) => (n === null || n === undefined ? "–" : numbers.format(n));

const times = new Intl.DateTimeFormat(language, { dateStyle: "short", timeStyle: "medium" });
export const time = (ms) => times.format(new Date(ms));

/** How long ago, to a second. */
export const ago = (ms, now = Date.now()) => text("ago", { span: span(Math.max(Math.round((now - ms) / 1000), 1) * 1000) });

/** An element with a class and a text. */
export function element(name, className = "", content = null) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (content !== null) made.textContent = content;
  return made;
}

/** Listens while the page is seen: a browser keeps six connections to a server, for all of its pages together. */
export function listen(url, handlers) {
  const status = document.getElementById("status");
  const trouble = document.getElementById("trouble");
  let source = null;
  const show = (isLive) => {
    status.textContent = text(isLive ? "live.on" : "live.off");
    status.classList.toggle("on", isLive);
  };
  const open = () => {
    source = new EventSource(url);
    source.onopen = () => show(true);
    source.onerror = () => {
      show(false);
      if (source.readyState === EventSource.CLOSED) setTimeout(() => source.readyState === EventSource.CLOSED && open(), 2000);
    };
    for (const [event, handle] of Object.entries(handlers)) {
      source.addEventListener(event, (message) => handle(JSON.parse(message.data)));
    }
    source.addEventListener("trouble", (message) => {
      trouble.textContent = refusal(JSON.parse(message.data));
      trouble.hidden = !trouble.textContent;
    });
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) source.close();
    else if (source.readyState === EventSource.CLOSED) open();
  });
  open();
}

/** Bytes in one unit. */
export function bytes(n) {
  if (n === null || n === undefined) return "–";
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  for (; n >= 1000 && unit < units.length - 1; unit++) n /= 1000;
  return `${numbers.format(n < 10 && unit ? Math.round(n * 10) / 10 : Math.round(n))} ${units[unit]}`;
}

/** A document of the server; an error is shown on the page, and null. */
export async function read(url) {
  const trouble = document.getElementById("trouble");
  const status = document.getElementById("status");
  let shown = "", result = null;
  try {
    const response = await fetch(url);
    const document_ = await response.json();
    if (response.ok) result = document_;
    else shown = refusal(document_) || String(response.status);
  } catch {
    shown = text("live.away");
  }
  trouble.textContent = shown;
  trouble.hidden = !shown;
  status.textContent = shown ? text("live.off") : text("live.on");
  status.classList.toggle("on", !shown);
  return result;
}

const POLL_MS = 1000; // so that a change is seen within two seconds

/** Reads a document again and again while the page is seen. */
export function poll(url, handle) {
  let isReading = false;
  const look = async () => {
    if (document.hidden || isReading) return;
    isReading = true;
    const result = await read(url).finally(() => (isReading = false));
    if (result !== null) handle(result);
  };
  setInterval(look, POLL_MS);
  document.addEventListener("visibilitychange", look);
  look();
}

/** A row of a table with these texts or elements as its cells. */
export function tableRow(...cells) {
  const row = element("tr");
  for (const cell of cells) {
    const made = element("td");
    made.append(cell instanceof Node ? cell : element("bdi", "", String(cell)));
    row.append(made);
  }
  return row;
}
