export { Broker, ControlError } from "./broker.js";
export type { Bytes, JournalLine, Lag, Offset, Rule } from "./values.js";
