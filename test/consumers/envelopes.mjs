// What a consumer makes of a message, by nobody's code but the CloudEvents SDK's and its own: read(envelope, message).
//
// A message is what a broker's client gave us:
//   {protocol: "amqp" | "nats", id, contentType, headers: {name: text}, body: Buffer}
// The result is the event, with the members that the envelope carries. Whatever is not as the envelope promises throws.
import assert from "node:assert/strict";
import {CloudEvent, HTTP} from "cloudevents";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const RFC3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;

export function read(envelope, message) {
  assert.match(message.id, UUID, "the message's id");
  message = {...message, headers: decoded(message.headers)};
  const event = readers[envelope](message);
  assert.equal(event.id, message.id, "the envelope's id is the message's");
  return event;
}

// NATS's headers are lines of ASCII: those that are listed here are percent-encoded.
function decoded({"waybill-encoded": names, ...headers}) {
  for (const name of names?.split(", ") ?? []) {
    assert.match(headers[name], /^[!-~]*$/, `${name} is a line of ASCII without spaces`);
    headers[name] = decodeURIComponent(headers[name]);
  }
  return headers;
}

const readers = {
  "cloudevents": readBinary,
  "cloudevents-structured": readStructured,
  "waybill": readWaybill,
  "raw": readRaw,
  "masstransit": readMassTransit,
};

// The names that CloudEvents gives its attributes in a protocol's headers, either form of AMQP's.
const PREFIXES = {amqp: /^cloudEvents[:_]/, nats: /^ce-/};

function attributes(message) {
  const found = {};
  for (const [name, value] of Object.entries(message.headers)) {
    if (!PREFIXES[message.protocol].test(name)) continue;
    assert.equal(typeof value, "string", `${name} is a text`);
    found[name.replace(PREFIXES[message.protocol], "")] = value;
  }
  return found;
}

// The SDK makes up what is missing.
function checkAttributes(given) {
  for (const name of ["specversion", "id", "source", "type", "time", "datacontenttype"])
    assert.equal(typeof given[name], "string", `the attribute ${name}`);
}

function ownHeaders(message) {
  return Object.fromEntries(Object.entries(message.headers).filter(([name]) =>
    !PREFIXES[message.protocol].test(name) && !/^(waybill-|nats-|content-type$)/i.test(name)));
}

function readBinary(message) {
  const given = attributes(message);
  if (message.protocol === "amqp") {
    given.datacontenttype = message.contentType;
    checkAttributes(given);
    return fromCloudEvent(new CloudEvent({...given, data: dataOf(message, given.datacontenttype)}, true), message);
  }
  // NATS's headers are HTTP's: the SDK reads them. It leaves percent-decoding to others.
  checkAttributes(given);
  const headers = {"content-type": given.datacontenttype};
  for (const [name, value] of Object.entries(given)) {
    if (name === "datacontenttype") continue;  // The one attribute that is mapped directly.
    assert.match(value, /^[!-~]*$/, `ce-${name} is a line of ASCII without spaces`);
    headers[`ce-${name}`] = decodeURIComponent(value);
  }
  // It parses what is application/json, and leaves "+json" to others, too.
  const plain = given.datacontenttype === "application/json";
  const body = plain ? message.body.toString() : dataOf(message, given.datacontenttype);
  return fromCloudEvent(HTTP.toEvent({headers, body}), message);
}

function readStructured(message) {
  assert.equal(message.contentType, "application/cloudevents+json");
  assert.deepEqual(attributes(message), {}, "no attribute is a header");
  const event = HTTP.toEvent({headers: {"content-type": message.contentType}, body: message.body.toString()});
  const members = JSON.parse(message.body);
  checkAttributes(members);
  assert.equal("data" in members, !("data_base64" in members), "either data or data_base64");
  // The SDK has decoded data_base64 into an array of its own kind.
  return fromCloudEvent(event, message, members.data_base64 && Buffer.from(members.data_base64, "base64"));
}

function isJson(type) {
  return /[/+]json(;|$)/.test(type);
}

function dataOf(message, type) {
  return isJson(type) ? JSON.parse(message.body) : message.body;
}

function payload(value) {
  return Buffer.isBuffer(value) ? {payload_base64: value.toString("base64")} : {payload: value};
}

function fromCloudEvent(event, message, bytes) {
  assert.equal(event.validate(), true);
  assert.equal(event.specversion, "1.0");
  assert.match(event.time, RFC3339);
  for (const name of ["traceparent", "tracestate"])
    assert.equal(event[name], message.headers[name], `${name} is an attribute, and a header of its own name`);
  return {
    id: event.id,
    source: event.source,
    type: event.type,
    aggregate_type: event.aggregatetype,
    aggregate_id: event.subject,
    version: number(event.aggregateversion),
    key: event.partitionkey,
    sequence: event.sequence,
    topic: event.topic,
    tenant: event.tenant,
    schema_id: event.schemaid,
    dataschema: event.dataschema,
    schema_version: number(event.schemaversion),
    metadata: event.metadata === undefined ? undefined : JSON.parse(event.metadata),
    occurred_at: event.time,
    content_type: event.datacontenttype,
    headers: ownHeaders(message),
    ...payload(bytes ?? (event.data === undefined ? Buffer.alloc(0) : event.data)),
  };
}

// Attributes of CloudEvents are texts where a number would not be safe.
function number(text) {
  if (text === undefined) return undefined;
  assert.match(String(text), /^\d+$/);
  return Number(text);
}

// Its members, each with what it must be; those with a question mark may be missing. Nothing else may be there.
function checkMembers(object, kinds) {
  for (const [name, kind] of Object.entries(kinds)) {
    const optional = name.endsWith("?");
    const value = object[name.replace("?", "")];
    if (optional && value === undefined) continue;
    if (kind instanceof RegExp) assert.match(value, kind, name);
    else if (kind !== "anything") assert.equal(Array.isArray(value) ? "array" : typeof value, kind, name);
    else assert.notEqual(value, undefined, name);
  }
  const known = Object.keys(kinds).map((name) => name.replace("?", ""));
  assert.deepEqual(Object.keys(object).filter((name) => !known.includes(name)), [], "members nobody knows");
}

function readWaybill(message) {
  assert.equal(message.contentType, "application/json");
  const body = JSON.parse(message.body);
  checkMembers(body, {
    "id": UUID,
    "aggregate_id": "string",
    "aggregate_type": "string",
    "event_type": "string",
    "event_data?": "anything",
    "event_data_base64?": "string",
    "metadata": "object",
    "version": "number",
    "timestamp": RFC3339,
    "schema_id?": "string",
    "schema_version?": "number",
    "key?": "string",
  });
  assert.equal("event_data" in body, !("event_data_base64" in body), "either event_data or event_data_base64");
  return {
    id: body.id,
    type: body.event_type,
    aggregate_type: body.aggregate_type,
    aggregate_id: body.aggregate_id,
    version: body.version,
    schema_id: body.schema_id,
    schema_version: body.schema_version,
    key: body.key,
    metadata: body.metadata,
    occurred_at: body.timestamp,
    headers: ownHeaders(message),
    ...payload("event_data" in body ? body.event_data : Buffer.from(body.event_data_base64, "base64")),
  };
}

function readRaw(message) {
  return {
    id: message.id,
    schema_id: message.headers["waybill-schema-id"],
    schema_version: number(message.headers["waybill-schema-version"]),
    content_type: message.contentType,
    headers: ownHeaders(message),
    ...payload(dataOf(message, message.contentType)),
  };
}

// https://masstransit.io: what its JSON deserializer wants.
function readMassTransit(message) {
  assert.equal(message.contentType, "application/vnd.masstransit+json");
  const body = JSON.parse(message.body);
  checkMembers(body, {
    "messageId": UUID,
    "correlationId?": UUID,
    "messageType": "array",
    "message": "object",
    "sentTime": RFC3339,
    "expirationTime?": RFC3339,
    "headers": "object",
  });
  assert.notEqual(body.messageType.length, 0);
  for (const type of body.messageType) assert.match(type, /^urn:message:[^:]+:[^:]+$/);
  const {"MT-Activity-Id": activity, "waybill-schema-id": schema, "waybill-schema-version": version,
    "waybill-metadata": metadata, ...headers} = body.headers;
  assert.equal(activity, message.headers.traceparent, "MassTransit's own name for traceparent");
  assert.deepEqual(headers, ownHeaders(message), "the event's own headers are in the envelope and beside it");
  return {
    id: body.messageId,
    correlation_id: body.correlationId,
    message_type: body.messageType,
    schema_id: schema,
    schema_version: version,
    metadata,
    headers,
    ...payload(body.message),
  };
}
