// What the consumers share: options from the command line, one line of JSON for each message.
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
function report(envelope, message, transport) {
  const line = {transport, body_base64: message.body.toString("base64")};
  try {
    line.event = read(envelope, message);
  } catch (error) {
    line.problem = `${error.message}\n${error.stack}`;
  }
  console.log(JSON.stringify(line));
}

// A message as amqplib gives it.
export function reportAmqp(envelope, {fields, properties, content}) {
  const {messageId, contentType, headers = {}} = properties;
  report(envelope, {protocol: "amqp", id: messageId, contentType, headers, body: content}, {
    exchange: fields.exchange,
    address: fields.routingKey,
    redelivered: fields.redelivered,
    id: messageId,
    type: properties.type,
    content_type: contentType,
    correlation_id: properties.correlationId,
    timestamp: properties.timestamp,
    delivery_mode: properties.deliveryMode,
    app_id: properties.appId,
  });
}

// A message as nats.js gives it.
export function reportNats(envelope, message) {
  const headers = {};
  for (const [name, values] of message.headers ?? []) headers[name] = values.join("\n");
  const id = headers["Nats-Msg-Id"];
  report(envelope, {protocol: "nats", id, contentType: headers["content-type"], headers, body: Buffer.from(message.data)}, {
    stream: message.info.stream,
    address: message.subject,
    id,
    content_type: headers["content-type"] ?? headers["ce-datacontenttype"],
    sequence: message.seq,
  });
}
