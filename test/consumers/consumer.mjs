// What both consumers share: options from the command line, one line of JSON for each message.
import {parseArgs} from "node:util";

import {read} from "./envelopes.mjs";

// All options are needed; `count` is a number.
export function options(...names) {
  const {values} = parseArgs({options: Object.fromEntries(names.map((name) => [name, {type: "string"}]))});
  for (const name of names) if (values[name] === undefined) throw new Error(`--${name} is missing`);
  return {...values, count: Number(values.count)};
}

// Whoever has started us may send now.
export function ready() {
  console.log("ready");
}

// `transport`: what the protocol says of the message, apart from its headers and body.
export function report(envelope, message, transport) {
  const line = {transport, body_base64: message.body.toString("base64")};
  try {
    line.event = read(envelope, message);
  } catch (error) {
    line.problem = `${error.message}\n${error.stack}`;
  }
  console.log(JSON.stringify(line));
}
