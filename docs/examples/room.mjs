// The whole life of a room over plain HTTP: node docs/examples/room.mjs
//
// TATARA_LEDGER_URL    the server, by default http://127.0.0.1:8080
// TATARA_LEDGER_TOKEN  a bearer token, where the server asks for one

const base = (process.env.TATARA_LEDGER_URL ?? "http://127.0.0.1:8080").replace(/\/+$/, "");
const token = process.env.TATARA_LEDGER_TOKEN;

async function call(method, path, body, headers = {}) {
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const response = await fetch(base + path, { method, headers, body: body && JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return text ? JSON.parse(text) : null;
}

// The same Idempotency-Key makes a repeat harmless: send it again after a
// failure, whether or not the first request arrived.
const create = (path, body) => call("POST", path, body, { "Idempotency-Key": crypto.randomUUID() });

const show = (who, messages) => {
  for (const m of messages) console.log(`${who} reads ${m.author_name}${m.target_id ? " (direct)" : ""}: ${m.body}`);
};

// Create a room and join it, twice.
const room = await create("/rooms", { name: "parser rewrite", created_by: "example" });
const ann = await create(`/rooms/${room.id}/participants`, { name: "ann", role: "orchestrator" });
const bob = await create(`/rooms/${room.id}/participants`, { name: "bob" });
const messages = `/rooms/${room.id}/messages`;
console.log(`room ${room.id} is ${room.status}`);

// Bob waits for news while ann writes. A poll moves his cursor, so that he gets
// every message once.
const waiting = call("GET", `${messages}?participant=${bob.id}&wait=20s`);
await create(messages, { participant_id: ann.id, body: "The lexer is done. Who takes the parser?" });
show("bob", (await waiting).messages);
await create(messages, { participant_id: bob.id, body: "I do.", kind: "claim" });

// A message for one participant only, by name or by id.
await create(messages, { participant_id: ann.id, target: "bob", body: "Mind the Unicode identifiers." });

// Bob reads without moving his cursor, and acknowledges what he has dealt with:
// had he died in between, he would be given it again.
for (let more = true; more; ) {
  const page = await call("GET", `${messages}?participant=${bob.id}&advance=false&limit=10`);
  show("bob", page.messages);
  if (page.count > 0) {
    const last = page.messages.at(-1).id;
    await call("POST", `/rooms/${room.id}/participants/${bob.id}/ack`, { last_seen_id: last });
  }
  more = page.has_more;
}

// The end: bob leaves, ann archives the room. It can still be read.
await call("DELETE", `/rooms/${room.id}/participants/${bob.id}`);
await call("DELETE", `/rooms/${room.id}`);
const { room: archived, participants } = await call("GET", `/rooms/${room.id}`);
console.log(`room is ${archived.status}, ${participants.filter((p) => p.left_at).length} of ${participants.length} left it`);

let count = 0;
for (let after = 0; after !== null; ) {
  const page = await call("GET", `/rooms/${room.id}/log?after=${after}&limit=2`);
  count += page.count;
  after = page.next;
}
console.log(`the log has ${count} messages`);
