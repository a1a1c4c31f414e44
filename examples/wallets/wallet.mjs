/**
 * A complete wallet by hand in Node.js (20 or newer): the standard library, and better-sqlite3 for the database.
 *
 * The rules, their names and their order are those of ../wallet_by_hand.py, and docs/tutorials/another-language.md has
 * them. Where the specification is silent, they follow docs/decisions/0010 to 0014. Node's own node:sqlite needs Node 22.
 *
 *     npm install better-sqlite3
 *     node wallet.mjs service.pub.pem 8000 p1 p2    # serves a wallet in which both players have 100.00
 *
 * DATABASE names a file that processes may share; without it the database is in memory. INSTANCES are your game
 * instances, separated by commas: withdraws and claims for any other are refused. During a rotation of keys the PEM
 * file holds both public keys, one below the other.
 */

import { createHash, createPublicKey, verify } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import Database from "better-sqlite3";

const OPERATIONS = new Map([
  ["/withdraw", "withdraw"],
  ["/deposit", "deposit"],
  ["/rollback", "rollback"],
  ["/player-balance", "player-balance"],
]);
const MAX_BODY = 65_536;
const MAX_DISCARDED = 16_777_216;
const MAX_LEVELS = 64;
const MAX_ID = 256;
const MAX_TX_ID = 320;
const MAX_CENTS = 10n ** 15n;
const SUCCESS = "SUCCESS";

/** Why a bet that is not OPEN cannot be settled. */
const NOT_OPEN = {
  SPENT: "BET_ALREADY_CLOSED",
  CLOSED: "BET_ALREADY_CLOSED",
  ROLLED_BACK: "BET_ROLLED_BACK",
  TOMBSTONE: "BET_ROLLED_BACK",
};

/** The database enforces uniqueness: two calls at once cannot both insert. All money is in whole cents. */
const SCHEMA = `
CREATE TABLE IF NOT EXISTS accounts (
    player_id TEXT PRIMARY KEY, cents INTEGER NOT NULL, last_millis INTEGER NOT NULL, blocked INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS bets (
    bet_id TEXT PRIMARY KEY, player_id TEXT NOT NULL, tx_id TEXT NOT NULL, cents INTEGER NOT NULL, state TEXT NOT NULL,
    code TEXT, digest TEXT);
CREATE TABLE IF NOT EXISTS calls (
    operation TEXT, tx_id TEXT, content TEXT NOT NULL, held_for TEXT, PRIMARY KEY (operation, tx_id));
CREATE TABLE IF NOT EXISTS postings (
    operation TEXT, tx_id TEXT, player_id TEXT NOT NULL, cents INTEGER NOT NULL, at_millis INTEGER NOT NULL,
    PRIMARY KEY (operation, tx_id));
`;

/** The body is not a valid call (decision 0010). */
class InvalidRequestError extends Error {}

// --- Strict JSON (decision 0010) -------------------------------------------------------------------------------------

/** A number as written in the JSON text: JSON.parse makes 9007199254740992 of 9007199254740993, and 1 of 1.0. */
class JsonNumber {
  constructor(text) {
    this.text = text;
  }
}

/** A byte that is not UTF-8 is an error, not U+FFFD. `ignoreBOM` means that a BOM is not removed: JSON has none. */
const UTF_8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const SPACE = /[ \t\n\r]*/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const WORD = /true|false|null/y;

/**
 * Reads JSON as its grammar has it. JSON.parse loses the digits of numbers, and of two members with one name it keeps
 * the last. Objects become Maps: in a plain object "__proto__" and "constructor" are there before the body is read.
 */
class JsonReader {
  #text;
  #at = 0;

  constructor(bytes) {
    try {
      this.#text = UTF_8.decode(bytes);
    } catch {
      throw new InvalidRequestError("the body is not UTF-8");
    }
  }

  document() {
    const value = this.#value(0);
    this.#match(SPACE);
    if (this.#at < this.#text.length) throw new InvalidRequestError("something follows the document");
    return value;
  }

  #value(level) {
    if (this.#skip("{")) return this.#object(level + 1);
    if (this.#skip("[")) return this.#array(level + 1);
    const number = this.#match(NUMBER);
    if (number !== undefined) return new JsonNumber(number);
    const word = this.#match(WORD);
    return word === undefined ? this.#string() : JSON.parse(word);
  }

  #object(level) {
    this.#checkLevel(level);
    const members = new Map();
    if (this.#skip("}")) return members;
    do {
      const name = this.#string();
      if (members.has(name)) throw new InvalidRequestError("a member stands twice");
      this.#expect(":");
      members.set(name, this.#value(level));
    } while (this.#skip(","));
    this.#expect("}");
    return members;
  }

  #array(level) {
    this.#checkLevel(level);
    const items = [];
    if (this.#skip("]")) return items;
    do {
      items.push(this.#value(level));
    } while (this.#skip(","));
    this.#expect("]");
    return items;
  }

  #checkLevel(level) {
    if (level > MAX_LEVELS) throw new InvalidRequestError("too many levels");
  }

  /** JSON.parse decodes the escapes: of a single string it loses nothing. */
  #string() {
    this.#match(SPACE);
    const string = this.#match(STRING);
    if (string === undefined) throw new InvalidRequestError("the body is not JSON");
    return JSON.parse(string);
  }

  #skip(character) {
    this.#match(SPACE);
    const isThere = this.#text[this.#at] === character;
    if (isThere) this.#at += 1;
    return isThere;
  }

  #expect(character) {
    if (!this.#skip(character)) throw new InvalidRequestError("the body is not JSON");
  }

  #match(pattern) {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text);
    if (found === null) return undefined;
    this.#at = pattern.lastIndex;
    return found[0];
  }
}

// --- Reading (decision 0010) -----------------------------------------------------------------------------------------

/** Read a call. A rollback's cents are not read: it refunds what was taken. */
function readCall(operation, body) {
  const document = new JsonReader(body).document();
  if (!(document instanceof Map)) throw new InvalidRequestError("not an object");
  const playerId = readId(document.get("player_id"), MAX_ID);
  if (operation === "player-balance") return { operation, playerId, betId: null, txId: null, isClaim: false };
  checkShape(operation, document);
  const action = readAction(operation, document);
  const call = {
    operation,
    playerId,
    betId: optionalId(document, MAX_ID, "action_id", "bet_id", "reference_id"),
    txId: optionalId(document, MAX_TX_ID, "tx_id", "transaction_id"),
    action,
    // A claim neither reads nor changes a bet, even one that it names (decision 0014).
    isClaim: operation === "deposit" && action !== "BET",
    cents: operation === "rollback" ? 0n : readAmount(operation, document),
    instanceId: document.get("instance_id"),
    digest: createHash("sha256").update(body).digest("hex"),
  };
  if (call.betId === null && (call.txId === null || !call.isClaim)) throw new InvalidRequestError("the bet is missing");
  return call;
}

/** A body must have the form of its path's calls, because the signature does not cover the path. */
function checkShape(operation, document) {
  const isDeposit = operation === "deposit";
  const action = document.get("action");
  const fits = document.has("action")
    ? isDeposit ? action instanceof Map : typeof action === "string"
    : document.has("won") === isDeposit;
  if (!fits) throw new InvalidRequestError(`this is not a ${operation}`);
}

function readAction(operation, document) {
  if (!document.has("action")) return "BET";
  const isDeposit = operation === "deposit";
  const action = isDeposit ? document.get("action").get("type") : document.get("action");
  const known = isDeposit ? ["BET", "FREE_BET_CLAIM", "JACKPOT"] : ["BET", "RAIN"];
  if (!known.includes(action)) throw new InvalidRequestError("an unknown action");
  return action;
}

/** Read whole cents: 500 and 500.0, but not "500", 5.5, 5e2, true or -1. */
function readAmount(operation, document) {
  const names = operation === "withdraw" ? ["amount", "wager"] : ["amount", "won", "action.won"];
  const value = first(document, ...names);
  const digits = value instanceof JsonNumber ? /^(-?0|[1-9][0-9]{0,15})(?:\.0+)?$/.exec(value.text) : null;
  if (digits === null || BigInt(digits[1]) > MAX_CENTS) throw new InvalidRequestError("not an amount in cents");
  const cents = BigInt(digits[1]); // Not Number, which turns cents beyond 2^53 into other ones.
  if (operation === "withdraw" && cents === 0n) throw new InvalidRequestError("a withdraw of nothing");
  return cents;
}

/** Return the id unchanged: trimmed, folded or normalised it could be another player's. */
function readId(value, longest) {
  if (typeof value !== "string") throw new InvalidRequestError("an id is a string");
  // `length` counts UTF-16 units; spread into an array it is code points.
  if (value.trim() === "" || [...value].length > longest || /[\0\p{Surrogate}]/u.test(value)) {
    throw new InvalidRequestError("an id is blank, too long, or not storable");
  }
  return value;
}

function optionalId(document, longest, ...names) {
  const value = first(document, ...names);
  return value === undefined ? null : readId(value, longest);
}

/** Return the value of the first of the names that is present, null included; undefined if all are missing. */
function first(document, ...names) {
  for (const name of names) {
    const [outer, inner] = name.split(".");
    const place = inner === undefined ? document : document.get(outer);
    if (place instanceof Map && place.has(inner ?? outer)) return place.get(inner ?? outer);
  }
  return undefined;
}

// --- The signature (decision 0011) -----------------------------------------------------------------------------------

/** RSA-SHA256 (PKCS#1 v1.5) over the bytes as they arrived: after parsing and writing they would be different bytes. */
function isAuthentic(signatures, body, publicKeys) {
  if (signatures?.length !== 1) return false; // Twice: another reader would take the other one.
  const signature = decodeSignature(signatures[0]);
  return signature !== null && publicKeys.some((key) => verify("sha256", body, key, signature));
}

/** Read Base64 of either alphabet, padded or not. Buffer.from takes both, but it ignores what is not Base64. */
function decodeSignature(header) {
  const text = header.trim().replace(/=+$/, "");
  return /^[A-Za-z0-9+/_-]+$/.test(text) && text.length % 4 !== 1 ? Buffer.from(text, "base64") : null;
}

/** Read the public keys of a PEM file: one, or during a rotation both. */
function readPublicKeys(file) {
  const advice = "Pass the public half of the key that the service signs with.";
  let text, keys;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw new Error(`${file} cannot be read (${error.code}). ${advice}`);
  }
  try {
    const blocks = text.match(/-----BEGIN PUBLIC KEY-----[^-]+-----END PUBLIC KEY-----/g) ?? [];
    keys = blocks.map((block) => createPublicKey(block));
  } catch {
    keys = []; // A block that holds something else.
  }
  if (keys.length === 0 || keys.some((key) => key.asymmetricKeyType !== "rsa")) {
    throw new Error(`${file} does not hold an RSA public key. ${advice}`);
  }
  return keys;
}

// --- The wallet ------------------------------------------------------------------------------------------------------

/** The four webhooks (spec §4.1) over one SQLite database. */
class Wallet {
  #publicKeys;
  #instances;
  #database;
  #carryOutInTransaction;

  constructor(publicKeys, { database = ":memory:", instances = null } = {}) {
    this.#publicKeys = publicKeys;
    this.#instances = instances;
    this.#database = new Database(database, { timeout: 30_000 });
    // All integers as BigInt: a balance beyond 2^53 would be another one.
    this.#database.defaultSafeIntegers(true);
    this.#database.pragma("journal_mode = WAL");
    this.#database.pragma("synchronous = FULL"); // better-sqlite3's own NORMAL can lose the last commits.
    this.#database.exec(SCHEMA);
    this.#carryOutInTransaction = this.#database.transaction((call) => this.#carryOut(call));
  }

  /** Open an account, unless the database file has it already. */
  openAccount(playerId, cents) {
    this.#run("INSERT OR IGNORE INTO accounts VALUES (?, ?, 0, 0)", playerId, cents);
  }

  close() {
    this.#database.close();
  }

  /** Return the reply's text. Never throws: a failure is SYSTEM_ERROR, rolled back, and says nothing about it. */
  answer(operation, signatures, body) {
    try {
      // Nobody has read what it says, so nothing final may be said of it.
      if (body.length > MAX_BODY) return render({ outcome: "SYSTEM_ERROR" });
      if (!isAuthentic(signatures, body, this.#publicKeys)) return render({ outcome: "INVALID_SIGNATURE" });
      const call = readCall(operation, body);
      if (this.#isForeign(call)) throw new InvalidRequestError("another operator's instance");
      // BEGIN IMMEDIATE: one writer at a time among all processes. COMMIT after every reply, ROLLBACK if it throws.
      return render(this.#carryOutInTransaction.immediate(call));
    } catch (error) {
      return render({ outcome: error instanceof InvalidRequestError ? "INVALID_REQUEST" : "SYSTEM_ERROR" });
    }
  }

  /** A service may sign for all its operators with one key, so withdraws and claims must name an instance. */
  #isForeign(call) {
    if (this.#instances === null || !(call.operation === "withdraw" || call.isClaim)) return false;
    return !this.#instances.has(call.instanceId);
  }

  // --- The order of checks (decision 0014) ---------------------------------------------------------------------------

  /** Return the reply of the first check that has one. */
  #carryOut(call) {
    const facts = this.#facts(call);
    const outcome =
      this.#askBody(facts) ?? this.#askIdentity(facts) ?? this.#askPlayer(facts) ?? this.#askTable(facts);
    return this.#reply(facts, outcome);
  }

  /** A call with all stored data about it, read in one transaction. */
  #facts(call) {
    const bet = call.isClaim || call.betId === null ? undefined : this.#findBet(call.betId);
    const txId = call.betId === null ? call.txId : (call.txId ?? derivedTxId(call, bet));
    const known = this.#findCall(call.operation, txId);
    return {
      call: { ...call, txId },
      now: BigInt(Date.now()),
      account: this.#findAccount(call.playerId),
      bet,
      known,
      // A call with this identity has a final answer, and check 2 has found the same content.
      isRepeat: known !== undefined && known.heldFor === null,
    };
  }

  /** Check 1: is it its withdraw's own body? The signature does not cover the path (decision 0011). */
  #askBody({ call, bet }) {
    return call.operation === "rollback" && bet?.digest === call.digest ? "INVALID_REQUEST" : null;
  }

  /** Check 2: is the identity known with other content, or held by another bet's tombstone? */
  #askIdentity({ call, known }) {
    return known === undefined || isSame(call, known) ? null : "DUPLICATE_TRANSACTION";
  }

  /** Check 3: is the player unknown? For an unseen bet the answer is final, even if the account is opened. */
  #askPlayer(facts) {
    const { call, account, bet } = facts;
    if (account !== undefined) return null;
    if (bet === undefined && call.operation === "withdraw") this.#decline(facts, "PLAYER_NOT_FOUND");
    if (bet === undefined && call.operation === "rollback") this.#entomb(facts);
    return "PLAYER_NOT_FOUND";
  }

  /** Check 4: what is the state of the bet? */
  #askTable(facts) {
    switch (facts.call.operation) {
      case "withdraw":
        return this.#withdraw(facts);
      case "deposit":
        return facts.call.isClaim ? this.#claim(facts) : this.#deposit(facts);
      case "rollback":
        return this.#rollback(facts);
      default:
        return SUCCESS; // player-balance
    }
  }

  #withdraw(facts) {
    const { bet, isRepeat } = facts;
    if (bet === undefined) return this.#place(facts);
    if (bet.state === "ROLLED_BACK" || bet.state === "TOMBSTONE") return "BET_ROLLED_BACK";
    if (!isRepeat) return "DUPLICATE_TRANSACTION";
    return bet.code ?? SUCCESS;
  }

  #place(facts) {
    const code = refusal(facts);
    if (code !== null) {
      this.#decline(facts, code);
      return code;
    }
    this.#debit(facts);
    return SUCCESS;
  }

  #debit(facts) {
    const { call } = facts;
    this.#move(facts, call.playerId, -call.cents);
    this.#remember(call);
    this.#keepBet(call, call.action === "RAIN" ? "SPENT" : "OPEN");
  }

  #deposit(facts) {
    const { call, bet, isRepeat } = facts;
    if (bet === undefined || bet.state === "DECLINED") return "BET_NOT_FOUND";
    if (isRepeat) return SUCCESS;
    if (["OPEN", "CLOSED", "ROLLED_BACK"].includes(bet.state) && call.playerId !== bet.playerId) return "BET_NOT_FOUND";
    if (bet.state !== "OPEN") return NOT_OPEN[bet.state];
    this.#settle(facts);
    return SUCCESS;
  }

  /** Credit the winnings. An amount of 0 is a loss, which settles the bet too. */
  #settle(facts) {
    this.#move(facts, facts.bet.playerId, facts.call.cents);
    this.#remember(facts.call);
    this.#setState(facts.bet, "CLOSED");
  }

  /** A free bet's or jackpot's winnings: paid once for each tx_id, in any state of any bet. */
  #claim(facts) {
    if (!facts.isRepeat) {
      this.#move(facts, facts.call.playerId, facts.call.cents);
      this.#remember(facts.call);
    }
    return SUCCESS;
  }

  #rollback(facts) {
    const { call, bet } = facts;
    if (bet === undefined) {
      this.#entomb(facts);
      return "BET_NOT_FOUND";
    }
    if (bet.state === "TOMBSTONE" || bet.state === "DECLINED" || !agrees(call, bet)) return "BET_NOT_FOUND";
    if (bet.state === "CLOSED") return "BET_ALREADY_CLOSED";
    if (bet.state !== "ROLLED_BACK") this.#refund(facts);
    return SUCCESS;
  }

  /** Give back the amount that was taken, not the amount in the rollback. */
  #refund(facts) {
    this.#move(facts, facts.bet.playerId, facts.bet.cents);
    this.#remember(facts.call);
    this.#setState(facts.bet, "ROLLED_BACK");
  }

  // --- The books -----------------------------------------------------------------------------------------------------

  #run(sql, ...values) {
    return this.#database.prepare(sql).run(...values);
  }

  #findAccount(playerId) {
    const sql = "SELECT player_id AS playerId, cents, last_millis AS lastMillis, blocked FROM accounts";
    return this.#database.prepare(`${sql} WHERE player_id = ?`).get(playerId);
  }

  #findBet(betId) {
    const sql = "SELECT bet_id AS betId, player_id AS playerId, tx_id AS txId, cents, state, code, digest FROM bets";
    return this.#database.prepare(`${sql} WHERE bet_id = ?`).get(betId);
  }

  /** Never by the tx_id alone, because a rollback has its withdraw's. */
  #findCall(operation, txId) {
    const sql = "SELECT content, held_for AS heldFor FROM calls WHERE operation = ? AND tx_id = ?";
    return this.#database.prepare(sql).get(operation, txId);
  }

  /** Move money, at a time after all returned ones. Beyond 64 bits better-sqlite3 throws, and nothing moves. */
  #move({ call, now }, playerId, cents) {
    const account = this.#findAccount(playerId);
    if (account === undefined) throw new Error("the account of a bet is missing");
    const atMillis = now > account.lastMillis ? now : account.lastMillis + 1n;
    const sql = "UPDATE accounts SET cents = ?, last_millis = ? WHERE player_id = ?";
    this.#run(sql, account.cents + cents, atMillis, playerId);
    this.#run("INSERT INTO postings VALUES (?, ?, ?, ?, ?)", call.operation, call.txId, playerId, cents, atMillis);
  }

  #remember(call) {
    this.#run("INSERT INTO calls VALUES (?, ?, ?, NULL)", call.operation, call.txId, contentOf(call));
  }

  /** Store a debited bet, with its body's digest: on /rollback that body would be a refund. */
  #keepBet(call, state) {
    const sql = "INSERT INTO bets VALUES (?, ?, ?, ?, ?, NULL, ?)";
    this.#run(sql, call.betId, call.playerId, call.txId, call.cents, state, call.digest);
  }

  /** Make a refusal final: the same withdraw gets the same answer, with any later balance. */
  #decline({ call }, code) {
    this.#remember(call);
    const sql = "INSERT INTO bets VALUES (?, ?, ?, ?, 'DECLINED', ?, NULL)";
    this.#run(sql, call.betId, call.playerId, call.txId, call.cents, code);
  }

  /** Stop a late withdraw: hold the bet and its withdraw's tx_id, unless another bet has that tx_id. */
  #entomb({ call }) {
    if (this.#findCall("withdraw", call.txId) !== undefined) return;
    this.#remember(call);
    this.#run("INSERT INTO calls VALUES ('withdraw', ?, '', ?)", call.txId, call.betId);
    const sql = "INSERT INTO bets VALUES (?, ?, ?, 0, 'TOMBSTONE', NULL, NULL)";
    this.#run(sql, call.betId, call.playerId, call.txId);
  }

  #setState(bet, state) {
    this.#run("UPDATE bets SET state = ? WHERE bet_id = ?", state, bet.betId);
  }

  // --- The reply (decision 0012) -------------------------------------------------------------------------------------

  /** Today's balance of the player that the call names, for a repeat as well, still in the transaction. */
  #reply({ call, now }, outcome) {
    const account = this.#findAccount(call.playerId);
    if (account === undefined || outcome === "PLAYER_NOT_FOUND") return { outcome };
    // Never earlier than the balance in the same reply.
    return { outcome, cents: account.cents, atMillis: now > account.lastMillis ? now : account.lastMillis };
  }
}

/** Make the tx_id of a body without one. A rollback gets its withdraw's. */
function derivedTxId(call, bet) {
  if (call.operation === "rollback" && bet !== undefined) return bet.txId;
  const operation = call.operation === "rollback" ? "withdraw" : call.operation;
  return `${operation}:${call.action.toLowerCase()}:${call.betId}`;
}

function isSame(call, known) {
  return known.heldFor === null ? known.content === contentOf(call) : known.heldFor === call.betId;
}

/** The values that must agree. Bytes, order of keys, round, game and unknown fields may differ. */
function contentOf(call) {
  if (call.operation === "rollback") return JSON.stringify([call.playerId, call.betId]);
  return JSON.stringify([call.playerId, call.isClaim ? null : call.betId, call.action, String(call.cents)]);
}

/** Check 5, only for a withdraw that is about to debit. */
function refusal({ call, account }) {
  if (account.blocked !== 0n) return "PLAYER_BLOCKED";
  return account.cents >= call.cents ? null : "INSUFFICIENT_BALANCE";
}

/** Whether a rollback names the bet's player and its withdraw. */
function agrees(call, bet) {
  return call.playerId === bet.playerId && call.txId === bet.txId;
}

/** Written by hand: JSON.stringify takes no BigInt, and would write 95.00 as 95. */
function render({ outcome, cents, atMillis }) {
  const members = outcome === SUCCESS ? ['"type":"SUCCESS"'] : ['"type":"ERROR"', `"code":"${outcome}"`];
  if (cents !== undefined) members.push(`"balance":${renderBalance(cents)}`, `"timestamp":${atMillis}`);
  return `{${members.join(",")}}`;
}

/** Two decimals, digit for digit (decision 0012): `cents / 100` would be a float. */
function renderBalance(cents) {
  const digits = String(cents < 0n ? -cents : cents).padStart(3, "0");
  return `${cents < 0n ? "-" : ""}${digits.slice(0, -2)}.${digits.slice(-2)}`;
}

// --- HTTP ------------------------------------------------------------------------------------------------------------

/** Answer every call with HTTP 200, refusals too (spec §4.1). Only what is not a call gets another status. */
async function respond(wallet, request, response) {
  const operation = OPERATIONS.get(request.url);
  const body = await readBody(request);
  response.setHeader("Content-Type", "application/json");
  if (operation === undefined) {
    response.writeHead(404).end(render({ outcome: "INVALID_REQUEST" }));
  } else if (request.method !== "POST") {
    response.writeHead(405, { Allow: "POST" }).end(render({ outcome: "INVALID_REQUEST" }));
  } else {
    // `headers` would join two signatures into one string; `headersDistinct` keeps both.
    response.end(wallet.answer(operation, request.headersDistinct.signature, body));
  }
}

/** The raw bytes. Beyond the limit they are read and dropped, so that the caller gets to the reply. */
async function readBody(request) {
  const pieces = [];
  let size = 0;
  for await (const piece of request) {
    if (size <= MAX_BODY) pieces.push(piece);
    size += piece.length;
    if (size > MAX_DISCARDED) throw new Error("the body does not end");
  }
  return Buffer.concat(pieces);
}

/** Serve the wallet on this machine. Node's listen backlog of 511 is enough for many calls at once. */
function serve(wallet, port) {
  const server = createServer((request, response) => {
    // A caller that disconnects within the body gets no answer. Put your own log here, without signatures.
    respond(wallet, request, response).catch(() => request.destroy());
  });
  server.requestTimeout = 30_000; // A silent caller is cut off.
  server.keepAliveTimeout = 75_000; // Node's own 5 seconds close connections that callers are about to use again.
  server.on("error", ({ code }) => giveUp(`Port ${port} cannot be used (${code}). Pass a port that is free.`));
  server.listen(port, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port} until Ctrl-C`));
  return server;
}

/** End with one line that says what to do, in place of a stack trace. */
function giveUp(message) {
  console.error(message);
  process.exit(1);
}

function main(publicKeyFile, port, ...playerIds) {
  if (!/^[0-9]{1,5}$/.test(port) || Number(port) > 65_535) {
    throw new Error(`Port ${port} is invalid. Use a number from 0 to 65535.`);
  }
  const { DATABASE, INSTANCES } = process.env;
  const instances = INSTANCES ? new Set(INSTANCES.split(",")) : null;
  const wallet = new Wallet(readPublicKeys(publicKeyFile), { database: DATABASE, instances });
  for (const playerId of playerIds) wallet.openAccount(playerId, 10_000n);
  const server = serve(wallet, Number(port));
  const stop = () => {
    server.close(() => wallet.close());
    server.closeAllConnections();
  };
  process.on("SIGTERM", stop).on("SIGINT", stop);
}

if (process.argv.length < 4) {
  console.error("Usage: node wallet.mjs service.pub.pem PORT PLAYER...");
  process.exitCode = 2;
} else {
  try {
    main(...process.argv.slice(2));
  } catch (error) {
    giveUp(error.message);
  }
}
