// Both npm clients against one registry: register, look up, evolve, encode and decode.
// Prints one JSON object; the test looks at it.
const { SchemaRegistry, SchemaType } = require("@kafkajs/confluent-schema-registry");
const {
  SchemaRegistryClient, AvroSerializer, AvroDeserializer, JsonSerializer, JsonDeserializer, SerdeType,
} = require("@confluentinc/schemaregistry");

const url = process.argv[2];
const user = { type: "record", name: "User", namespace: "npm", fields: [{ name: "name", type: "string" }] };
const evolved = { ...user, fields: [...user.fields, { name: "age", type: "int", default: 0 }] };
const person = { $schema: "http://json-schema.org/draft-07/schema#", type: "object",
  properties: { name: { type: "string" } }, required: ["name"], additionalProperties: false };
const proto = 'syntax = "proto3";\npackage npm;\nmessage Measure { int32 value = 1; }\n';

async function kafkajs() {
  const registry = new SchemaRegistry({ host: url });
  const first = await registry.register({ type: SchemaType.AVRO, schema: JSON.stringify(user) }, { subject: "kjs-avro" });
  const second = await registry.register({ type: SchemaType.AVRO, schema: JSON.stringify(evolved) }, { subject: "kjs-avro" });
  const json = await registry.register({ type: SchemaType.JSON, schema: JSON.stringify(person) }, { subject: "kjs-json" });
  const measure = await registry.register({ type: SchemaType.PROTOBUF, schema: proto }, { subject: "kjs-proto" });
  const travelled = [];
  for (const [id, value] of [[first.id, { name: "Ada" }], [json.id, { name: "Ada" }], [measure.id, { value: 7 }]]) {
    travelled.push(await new SchemaRegistry({ host: url }).decode(await registry.encode(id, value)));
  }
  return {
    ids: [first.id, second.id], latest: await registry.getLatestSchemaId("kjs-avro"), travelled,
    found: await registry.getRegistryId("kjs-avro", 1),
  };
}

async function confluent() {
  const client = new SchemaRegistryClient({ baseURLs: [url] });
  const id = await client.register("cnf-avro", { schemaType: "AVRO", schema: JSON.stringify(user) });
  const next = await client.register("cnf-avro", { schemaType: "AVRO", schema: JSON.stringify(evolved) });
  const latest = await client.getLatestSchemaMetadata("cnf-avro");
  const fits = await client.testCompatibility("cnf-avro", -1, { schemaType: "AVRO", schema: '"int"' });
  await client.updateCompatibility("cnf-avro", "FULL");
  const level = await client.getCompatibility("cnf-avro");
  const avro = new AvroSerializer(client, SerdeType.VALUE, { useLatestVersion: true });
  const bytes = await avro.serialize("cnf", { name: "Ada", age: 36 }).catch(async () => {
    await client.register("cnf-value", { schemaType: "AVRO", schema: JSON.stringify(evolved) });
    return avro.serialize("cnf", { name: "Ada", age: 36 });
  });
  const read = await new AvroDeserializer(client, SerdeType.VALUE, {}).deserialize("cnf", bytes);
  await client.register("cnj-value", { schemaType: "JSON", schema: JSON.stringify(person) });
  const json = new JsonSerializer(client, SerdeType.VALUE, { useLatestVersion: true });
  const text = await json.serialize("cnj", { name: "Ada" });
  const readText = await new JsonDeserializer(client, SerdeType.VALUE, {}).deserialize("cnj", text);
  return {
    ids: [id, next], latest: latest.id, fits, level, read, readText, magic: bytes[0],
    subjects: (await client.getAllSubjects()).filter((each) => each.startsWith("cn")),
    deleted: await client.deleteSubject("cnf-avro"),
  };
}

(async () => console.log(JSON.stringify({ kafkajs: await kafkajs(), confluent: await confluent() })))().catch(
  (error) => { console.error(error); process.exit(1); });
