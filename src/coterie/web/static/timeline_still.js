// The timelines of a report: each stands in its element as JSON, with a table for readers without JavaScript.

import { mountTimeline } from "./timeline.js";

const chinese = (navigator.language || "en").toLowerCase().startsWith("zh");

for (const [index, root] of document.querySelectorAll(".timeline").entries()) {
  const { timeline, texts } = JSON.parse(root.querySelector("script").textContent);
  const language = chinese ? "zh" : "en", name = `timeline${index === 0 ? "" : index + 1}=`;
  const inAddress = () => location.hash.slice(1).split("&").find((part) => part.startsWith(name))?.slice(name.length);
  const onMoment = (moment) => {
    const others = location.hash.slice(1).split("&").filter((part) => part !== "" && !part.startsWith(name));
    history.replaceState(null, "", `#${[...others, name + moment].join("&")}`);
  };
  const mounted = mountTimeline(root, { timeline, texts: texts[language], language, onMoment });
  const show = () => { const moment = inAddress(); if (moment !== undefined) mounted.show(moment); };
  addEventListener("hashchange", show);
  show();
}
