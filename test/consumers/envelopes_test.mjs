// The consumers read the examples of docs/envelopes.md, and notice when anything of them is missing.
import assert from "node:assert/strict";
import fs from "node:fs";
import test from "node:test";

import {read} from "./envelopes.mjs";

const page = fs.readFileSync(process.env.WAYBILL_ENVELOPES_PAGE, "utf8");

function lines(text) {
  return Object.fromEntries(text.split("\n").map((line) => line.match(/^(.*?): (.*)$/).slice(1)));
}

// The blocks below "### `name`", each as a message: properties (AMQP's only), headers, body.
function examples(name) {
  const section = page.split(`### \`${name}\``)[1].split("\n### ")[0].split("\n## ")[0];
  return [...section.matchAll(/```text\n(.*?)\n```/gs)].map(([, text]) => {
    const parts = text.split("\n\n");
    const body = Buffer.from(parts.pop());
    const headers = lines(parts.pop());
    if (parts.length === 0) return {protocol: "nats", id: headers["ce-id"], headers, body};
    const {message_id: id, content_type: contentType} = lines(parts.pop());
    return {protocol: "amqp", id, contentType, headers, body};
  });
}

const common = {
  id: "018f3c1e-7b1a-7c3d-9e2f-0123456789ab",
  schema_id: "https://example.org/schemas/check-in",
  schema_version: 2,
  headers: {traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", priority: "high"},
  payload: {visit: "v-7", name: "Jörg"},
};

for (const name of ["cloudevents", "cloudevents-structured", "waybill", "raw", "masstransit"]) {
  for (const message of examples(name)) {
    test(`${name} in ${message.protocol} is read`, () => {
      const event = read(name, message);
      for (const [member, value] of Object.entries(common)) assert.deepEqual(event[member], value, member);
    });

    test(`${name} in ${message.protocol}: an id that is another's is noticed`, () => {
      if (name !== "raw") assert.throws(() => read(name, {...message, id: common.id.replace("0", "1")}));
      assert.throws(() => read(name, {...message, id: "7"}));
    });
  }
}

test("cloudevents: what is missing is noticed", () => {
  for (const message of examples("cloudevents")) {
    const prefix = message.protocol === "amqp" ? "cloudEvents:" : "ce-";
    for (const attribute of ["id", "source", "type", "time", "specversion", "traceparent"]) {
      const headers = {...message.headers};
      assert.ok(delete headers[prefix + attribute]);
      assert.throws(() => read("cloudevents", {...message, headers}), undefined, attribute);
    }
    assert.throws(() => read("cloudevents", {...message, headers: {...message.headers, [`${prefix}id`]: "x y"}}));
  }
});

// Every member of the body, one by one.
for (const [name, optional] of Object.entries({
  "cloudevents-structured": /^(subject|dataschema|schema|partition|sequence|aggregate|topic|tenant|metadata)/,
  "waybill": /^schema_/,
  "masstransit": /^$/,
})) {
  test(`${name}: what is missing is noticed`, () => {
    const [message] = examples(name);
    const body = JSON.parse(message.body);
    for (const member of Object.keys(body)) {
      const {[member]: _, ...rest} = body;
      const cut = {...message, body: Buffer.from(JSON.stringify(rest))};
      if (optional.test(member)) read(name, cut);
      else assert.throws(() => read(name, cut), undefined, member);
    }
    assert.throws(() => read(name, {...message, contentType: "text/plain"}));
    if (name !== "cloudevents-structured")
      assert.throws(() => read(name, {...message, body: Buffer.from(JSON.stringify({...body, more: 1}))}));
  });
}
