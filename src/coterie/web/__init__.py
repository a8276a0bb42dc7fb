"""The console: a cluster's groups as web pages that change while one looks. Works on any Kafka; needs the extra coterie[http].

`server` listens; `guards` refuses what comes from elsewhere; `pages` fills the templates with the texts of `texts.json`;
`event_streams` sends what changes. What is shown comes from a feed of `feeds/` over a `group_memory`: `observed_feed` makes one
of an observer, and `handed_feed` of what a coterie broker hands, so that nothing here imports the broker.

**Addresses.** G is the group's name, percent-encoded.

| path | response |
|---|---|
| /console | the groups |
| /console/groups/G | one group |
| /console/topics, /console/topics/T, /console/brokers | topics, one with its records, brokers |
| /api/topics, /api/topics/T, /api/brokers | their documents (`cluster_documents`) |
| /api/topics/T/records?partition=N&offset=N&count=N | records (`record_reading`); with time_ms instead of offset by time |
| /api/events | server-sent events of all groups: `rows` |
| /api/groups/G/history | the group's journal as a JSON array, oldest first: the document of `groups history --all --json` |
| POST /api/groups/G/predict | `{pause_ms, gap_ms, kill, only_one}`: `groups predict --json` with more (`what_if`) |
| POST /api/changes/plan, /work | what a change would do, and what it did (`changes`); with --allow-changes alone |
| /api/groups/G/events | server-sent events of one group: `history`, `timeline`, `line`, `changes`, `explanation` |
| /static/NAME | scripts and styles |

**Events of one group**, each with one line of JSON as its data:

- `history`: first, and again after each reconnect and after 5,000 further lines: the same array as /history. What was drawn
  before is to be forgotten, so that neither side grows with the time that a page is open.
- `timeline`: behind it, the document of the timeline: `JournalTimeline.document`, which static/timeline.js documents.
- `changes`: behind further lines, what they change of it.
- `line`: a further event of the journal, an object of that array; `coterie.coordinator.journal.line` has its fields and kinds.
- `explanation`: each half second, the document of `groups why --json`, with `now_ms`, the server's time in ms since 1970.
- `trouble`: what the server cannot reach at present, as `refusals.refusal` has it; `{}` once it can.

**Events of all groups**: `rows`, `{"reset": bool, "rows": [row, …], "removed": [group, …]}`, at most two a second; with
``reset`` the rows are all that there are. A row has the fields of `live_rows.LiveRow`.

**The timeline** is a component of static/timeline.js, an ES module, which the page of a group mounts so:

    import { mountTimeline } from "/static/timeline.js";
    const timeline = mountTimeline(element, {timeline, texts, language, onMoment});
    timeline.append(changes);     // of an event `changes`
    timeline.replace(document);   // of a further event `timeline`
    timeline.explain(explanation) // of an event `explanation`
    timeline.show(moment)         // a moment of the page's address: the text that onMoment was given

``timeline`` is the document of the first event `timeline`. ``texts`` maps the names of texts.json that begin with `timeline.`
to texts of the language.
``onMoment(moment)`` is called with a short text without spaces when the reader changes what is shown; the page keeps it in its
address (#moment). No style attribute and no inline script: the content security policy is `default-src 'none'` with 'self' for
scripts, styles, pictures and connections; styles that are computed are set by the CSSOM (``element.style.left = …``).
Text from outside goes in by textContent.
"""
