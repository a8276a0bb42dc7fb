// What a reader chooses: a lesson, the settings of a group, a file of one's own.
const byId = (id) => document.getElementById(id);
const option = (value, text) => Object.assign(document.createElement("option"), { value, textContent: text });

export class SettingsForm {
  constructor(t, description, start) {
    Object.assign(this, { t, description });
    this.form = byId("settings");
    this.fields = new Map();
    for (const { name, default: value } of description.settings) this.form.lastElementChild.before(this.field(name, value));
    this.fields.get("protocol").addEventListener("change", () => this.timeouts());
    this.form.addEventListener("submit", (event) => { event.preventDefault(); start(this.values()); });
    this.timeouts();
  }

  field(name, value) {
    const label = document.createElement("label"), input = document.createElement(name === "protocol" ? "select" : "input");
    if (name === "protocol") input.append(...Object.keys(this.description.protocols).map((protocol) => option(protocol, this.t(`protocol.${protocol}`))));
    else Object.assign(input, { type: "number", min: 0 });
    input.value = value;
    input.name = name;
    this.fields.set(name, input);
    label.append(Object.assign(document.createElement("span"), { textContent: name.includes(".") ? name : this.t(`setting.${name}`) }), input);
    return label;
  }

  timeouts() {
    for (const [name, value] of Object.entries(this.description.protocols[this.fields.get("protocol").value])) this.fields.get(name).value = value;
  }

  values() { return Object.fromEntries([...this.fields].map(([name, input]) => [name, input.value])); }

  fill(settings) {
    this.fields.get("protocol").value = settings.protocol;
    this.timeouts();
    for (const [name, value] of Object.entries(settings)) if (value !== -1) this.fields.get(name).value = value;
  }
}

export class Lessons {
  constructor(t, description, start) {
    const select = byId("lesson"), { lessons } = description;
    select.append(...lessons.map((lesson, index) => option(index, `${index + 1}. ${t(`lesson.${lesson.name}.title`)}`)));
    const show = () => {
      const { name } = lessons[select.value];
      byId("lesson-text").replaceChildren(...t(`lesson.${name}.text`).split("\n").map((text) => Object.assign(document.createElement("p"), { textContent: text })));
    };
    select.addEventListener("change", show);
    byId("lesson-start").addEventListener("click", () => start(lessons[select.value]));
    show();
  }
}

const COSTS = ["rebalances", "unowned_s", "longest_unowned_s", "pause_s", "moved", "duplicates", "messages"];

export class Dropped {
  constructor(t, description, laboratory, settings, start, trouble) {
    Object.assign(this, { t, description, laboratory, settings, start, trouble });
    const zone = byId("drop");
    byId("file").addEventListener("change", ({ target }) => target.files[0] && this.read(target.files[0]));
    zone.addEventListener("dragover", (event) => { event.preventDefault(); zone.classList.add("over"); });
    zone.addEventListener("dragleave", () => zone.classList.remove("over"));
    zone.addEventListener("drop", (event) => {
      event.preventDefault();
      zone.classList.remove("over");
      if (event.dataTransfer.files[0]) this.read(event.dataTransfer.files[0]);
    });
    byId("replay").addEventListener("click", () => this.start({ settings: { ...this.settings(), ...this.group() }, dropped: Number(byId("dropped").value) }));
    byId("compare").addEventListener("click", () => this.compare());
  }

  // The members come from the file, and the partitions.
  group() { return { members: 0, partitions: this.groups[byId("dropped").value].partitions }; }

  async read(file) {
    const result = JSON.parse(await this.laboratory.call("drop", await file.text()));
    this.trouble(result.error ?? "");
    const isRead = !result.error;
    for (const id of ["dropped-label", "replay", "compare"]) byId(id).hidden = !isRead;
    if (!isRead) return;
    this.groups = result.groups;
    byId("dropped").replaceChildren(...this.groups.map(({ group, members, changes, partitions }, index) =>
      option(index, this.t("drop.option", { group, members, changes, partitions }))));
  }

  // Every protocol on the same changes, one after the other: rows come as they are computed.
  async compare() {
    const region = byId("costs-of-all"), [head, body] = region.querySelectorAll("thead, tbody"), button = byId("compare");
    const row = (cells, tag) => {
      const made = document.createElement("tr");
      made.append(...cells.map((text) => Object.assign(document.createElement(tag), { textContent: text })));
      return made;
    };
    head.replaceChildren(row([this.t("setting.protocol"), ...COSTS.map((name) => this.t(`cost.${name}`))], "th"));
    body.replaceChildren();
    region.hidden = false;
    button.disabled = true;
    for (const protocol of Object.keys(this.description.protocols)) {
      const settings = { ...this.settings(), ...this.group(), ...this.description.protocols[protocol], protocol };
      const request = JSON.stringify({ settings, dropped: Number(byId("dropped").value) });
      const result = JSON.parse(await this.laboratory.call("costs", request));
      if (result.error) { this.trouble(result.error); break; }
      body.append(row([this.t(`protocol.${protocol}`), ...COSTS.map((name) => Math.round(result[name] * 100) / 100)], "td"));
    }
    button.disabled = false;
  }
}
