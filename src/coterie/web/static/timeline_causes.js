// Why a group rebalanced, in words: of causes as a line of the journal has them, or the document of a timeline.

const of = ({ who, group_instance_id: instance, member_id: member, client_id: client }) => who ?? (instance || member || client || "");

// One cause in the language of the texts; a kind that they do not have stays as it is. short: members as a reader knows them.
export function causeText(cause, texts, short) {
  const { kind, verb = kind, reason, rule } = cause, verbs = texts[`timeline.cause.${kind}`] ?? verb;
  const by = rule && (texts[`timeline.rule.${rule}`] ?? rule), inferred = by && (texts["timeline.inferred"] ?? "{rule}").replace("{rule}", () => by);
  const more = [reason, inferred].filter(Boolean).join(", ");
  return `${short(of(cause))} ${verbs}`.trim() + (more ? ` (${more.slice(0, 300)})` : "");
}
