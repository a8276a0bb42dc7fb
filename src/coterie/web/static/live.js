// What every page shares: its texts, text from outside made visible, and the stream of events.

export const texts = JSON.parse(document.getElementById("texts").textContent);
export const language = document.documentElement.lang;

/** A text of texts.json, with its {names} filled in. */
export function text(name, values = {}) {
  return (texts[name] ?? name).replace(/\{(\w+)\}/g, (_, key) => values[key] ?? "");
}

// Control characters, and the marks that turn the direction of what follows: as in pages.py.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** A text from outside, as one line in which every character shows; cut after `most` characters. */
export function visible(outside, most = 300) {
  const cut = outside.length > most ? outside.slice(0, most) + "…" : outside;
  return cut.replace(HIDDEN, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}

const numbers = new Intl.NumberFormat(language);
export const number = (n) => (n === null || n === undefined ? "–" : numbers.format(n));

const times = new Intl.DateTimeFormat(language, { dateStyle: "short", timeStyle: "medium" });
export const time = (ms) => times.format(new Date(ms));

/** How long ago, in one unit. */
export function ago(ms, now = Date.now()) {
  const seconds = Math.max(Math.round((now - ms) / 1000), 0);
  if (seconds < 120) return text("ago.s", { n: seconds });
  if (seconds < 7200) return text("ago.min", { n: Math.round(seconds / 60) });
  if (seconds < 172800) return text("ago.h", { n: Math.round(seconds / 3600) });
  return text("ago.d", { n: Math.round(seconds / 86400) });
}

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
      trouble.textContent = visible(JSON.parse(message.data).text, 1000);
      trouble.hidden = !trouble.textContent;
    });
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) source.close();
    else if (source.readyState === EventSource.CLOSED) open();
  });
  open();
}
