/** A committed offset of a partition. */
export interface Offset {
  topic: string;
  partition: number;
  offset: number;
}

/** The number of records behind a group's committed offset. */
export interface Lag {
  topic: string;
  partition: number;
  lag: number;
}

/** What becomes of the next requests of an API, as it was when the broker returned it. */
export interface Rule {
  rule: number;
  api: string;
  times_left: number;
  held: number;
}

/** A line of the journal: a step of a group, with its causes. */
export interface JournalLine {
  time_ms: number;
  group: string;
  generation: number;
  event: string;
  state_from: string;
  state_to: string;
  causes?: { kind: string; member_id?: string; client_id?: string; reason?: string }[];
  [field: string]: unknown;
}

/** The value or key of a record: a text is UTF-8. */
export type Bytes = string | Uint8Array;

export function bytes(value: Bytes): string | { base64: string } {
  return typeof value === "string" ? value : { base64: Buffer.from(value).toString("base64") };
}
