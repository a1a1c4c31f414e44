// A complete wallet by hand in Go (1.19 or newer): the standard library, and go-sqlite3 for the database.
//
// The rules, their names and their order are those of ../wallet_by_hand.py, and docs/tutorials/own-wallet.md says why. Where the
// specification is silent, they follow docs/decisions/0010 to 0014.
//
//	go mod init wallet && go get github.com/mattn/go-sqlite3
//	go run wallet.go service.pub.pem 8000 p1 p2    # serves a wallet in which both players have 100.00
//
// DATABASE names a file that processes may share; without it the database is in memory. INSTANCES are your game
// instances, separated by commas: withdraws and claims for any other are refused. During a rotation of keys the PEM
// file holds both public keys, one below the other.
package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	_ "github.com/mattn/go-sqlite3"
)

var operations = map[string]string{
	"/withdraw":       "withdraw",
	"/deposit":        "deposit",
	"/rollback":       "rollback",
	"/player-balance": "player-balance",
}

const (
	maxBody      = 65_536
	maxDiscarded = 16_777_216
	maxLevels    = 64
	maxID        = 256
	maxTxID      = 320
	maxCents     = 1_000_000_000_000_000
	success      = "SUCCESS"
)

// notOpen says why a bet that is not OPEN cannot be settled.
var notOpen = map[string]string{
	"SPENT":       "BET_ALREADY_CLOSED",
	"CLOSED":      "BET_ALREADY_CLOSED",
	"ROLLED_BACK": "BET_ROLLED_BACK",
	"TOMBSTONE":   "BET_ROLLED_BACK",
}

// The database enforces uniqueness: two calls at once cannot both insert. All money is in whole cents.
const schema = `
CREATE TABLE IF NOT EXISTS accounts (
    player_id TEXT PRIMARY KEY, cents INTEGER NOT NULL, last_millis INTEGER NOT NULL, blocked INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS bets (
    bet_id TEXT PRIMARY KEY, player_id TEXT NOT NULL, tx_id TEXT NOT NULL, cents INTEGER NOT NULL, state TEXT NOT NULL,
    code TEXT, digest TEXT);
CREATE TABLE IF NOT EXISTS calls (
    operation TEXT, tx_id TEXT, content TEXT NOT NULL, held_for TEXT, PRIMARY KEY (operation, tx_id));
CREATE TABLE IF NOT EXISTS postings (
    operation TEXT, tx_id TEXT, player_id TEXT NOT NULL, cents INTEGER NOT NULL, at_millis INTEGER NOT NULL,
    PRIMARY KEY (operation, tx_id));`

// errInvalidRequest wraps why a body is not a valid call (decision 0010).
var errInvalidRequest = errors.New("invalid request")

func invalid(why string) error { return fmt.Errorf("%w: %s", errInvalidRequest, why) }

// --- Strict JSON (decision 0010) -------------------------------------------------------------------------------------

// object has a JSON object's members. A struct with tags is filled from "PLAYER_ID" as well, and from the last of two.
type object map[string]any

var (
	pairs = regexp.MustCompile(`(?i)\\\\|\\ud[89ab]..\\ud[c-f]..`)
	half  = regexp.MustCompile(`(?i)\\ud[89a-f]`)
)

// parseJSON reads strict JSON as object, []any, string, json.Number, bool or nil.
func parseJSON(body []byte) (any, error) {
	// Else encoding/json replaces bytes that are not UTF-8 by U+FFFD, which makes two ids one.
	if !utf8.Valid(body) || !json.Valid(body) {
		return nil, invalid("the body is not JSON in UTF-8")
	}
	return parseValue(body, 0)
}

// parseValue reads a value within so many objects and arrays.
func parseValue(raw json.RawMessage, levels int) (any, error) {
	raw = bytes.TrimSpace(raw)
	if isContainer := raw[0] == '{' || raw[0] == '['; isContainer && levels == maxLevels {
		return nil, invalid("too many levels")
	}
	switch raw[0] {
	case '{':
		return parseObject(raw, levels+1)
	case '[':
		return parseArray(raw, levels+1)
	case '"':
		return parseString(raw)
	case 't', 'f':
		return raw[0] == 't', nil
	case 'n':
		return nil, nil
	default:
		return json.Number(raw), nil // The digits as written: in an any, json.Unmarshal would put a float64.
	}
}

func parseObject(raw json.RawMessage, levels int) (any, error) {
	members, decoder := object{}, json.NewDecoder(bytes.NewReader(raw))
	if _, err := decoder.Token(); err != nil { // The opening brace.
		return nil, err
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		if _, isThere := members[name.(string)]; isThere {
			return nil, invalid("a member stands twice")
		}
		if members[name.(string)], err = parseNext(decoder, levels); err != nil {
			return nil, err
		}
	}
	return members, nil
}

func parseArray(raw json.RawMessage, levels int) (any, error) {
	items, decoder := []any{}, json.NewDecoder(bytes.NewReader(raw))
	if _, err := decoder.Token(); err != nil { // The opening bracket.
		return nil, err
	}
	for decoder.More() {
		item, err := parseNext(decoder, levels)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

func parseNext(decoder *json.Decoder, levels int) (any, error) {
	var raw json.RawMessage
	if err := decoder.Decode(&raw); err != nil {
		return nil, err
	}
	return parseValue(raw, levels)
}

// parseString puts U+0000, which no id may contain, before a string with half a surrogate pair: encoding/json makes
// U+FFFD of each, and of two ids one.
func parseString(raw json.RawMessage) (any, error) {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return nil, err
	}
	if half.Match(pairs.ReplaceAll(raw, []byte(" "))) {
		text = "\x00" + text
	}
	return text, nil
}

// --- Reading (decision 0010) -----------------------------------------------------------------------------------------

// call is a body that was read. A missing id is "", because no id is blank. A rollback's cents are not read: it refunds
// what was taken.
type call struct {
	operation, playerID, betID, txID, action string
	cents                                    int64
	instanceID                               any
	digest                                   string
}

// isClaim: a claim neither reads nor changes a bet, even one that it names (decision 0014).
func (c call) isClaim() bool { return c.operation == "deposit" && c.action != "BET" }

func readCall(operation string, body []byte) (call, error) {
	value, err := parseJSON(body)
	if err != nil {
		return call{}, err
	}
	document, isObject := value.(object)
	if !isObject {
		return call{}, invalid("not an object")
	}
	playerID, err := readID(document["player_id"], maxID)
	if err != nil || operation == "player-balance" {
		return call{operation: operation, playerID: playerID}, err
	}
	return readMovingCall(operation, playerID, document, body)
}

func readMovingCall(operation, playerID string, document object, body []byte) (c call, err error) {
	digest := sha256.Sum256(body)
	c = call{operation: operation, playerID: playerID, instanceID: document["instance_id"]}
	c.digest = hex.EncodeToString(digest[:])
	if err = checkShape(operation, document); err != nil {
		return c, err
	}
	if c.action, err = readAction(operation, document); err != nil {
		return c, err
	}
	if c.betID, err = optionalID(document, maxID, "action_id", "bet_id", "reference_id"); err != nil {
		return c, err
	}
	if c.txID, err = optionalID(document, maxTxID, "tx_id", "transaction_id"); err != nil {
		return c, err
	}
	if operation != "rollback" {
		if c.cents, err = readAmount(operation, document); err != nil {
			return c, err
		}
	}
	if c.betID == "" && (c.txID == "" || !c.isClaim()) {
		return c, invalid("the bet is missing")
	}
	return c, nil
}

// checkShape: a body must have the form of its path's calls, because the signature does not cover the path.
func checkShape(operation string, document object) error {
	isDeposit := operation == "deposit"
	action, hasAction := document["action"]
	_, fits := document["won"]
	fits = fits == isDeposit
	if hasAction && isDeposit {
		_, fits = action.(object)
	} else if hasAction {
		_, fits = action.(string)
	}
	if !fits {
		return invalid("this is not a " + operation)
	}
	return nil
}

func readAction(operation string, document object) (string, error) {
	action, hasAction := document["action"]
	if !hasAction {
		return "BET", nil
	}
	if inner, isObject := action.(object); isObject {
		action = inner["type"]
	}
	switch {
	case action == "BET":
	case operation == "deposit" && (action == "FREE_BET_CLAIM" || action == "JACKPOT"):
	case operation != "deposit" && action == "RAIN":
	default:
		return "", invalid("an unknown action")
	}
	return action.(string), nil
}

var wholeCents = regexp.MustCompile(`^(-?0|[1-9][0-9]{0,15})(?:\.0+)?$`)

// readAmount reads whole cents: 500 and 500.0, but not "500", 5.5, 5e2, true or -1.
func readAmount(operation string, document object) (int64, error) {
	names := []string{"amount", "won", "action.won"}
	if operation == "withdraw" {
		names = []string{"amount", "wager"}
	}
	value, _ := first(document, names...)
	number, _ := value.(json.Number) // "" for anything else.
	digits := wholeCents.FindStringSubmatch(string(number))
	if digits == nil {
		return 0, invalid("not an amount in cents")
	}
	cents, err := strconv.ParseInt(digits[1], 10, 64)
	if err != nil || cents > maxCents {
		return 0, invalid("too large an amount")
	}
	if operation == "withdraw" && cents == 0 {
		return 0, invalid("a withdraw of nothing")
	}
	return cents, nil
}

// readID returns the id unchanged: trimmed, folded or normalised it could be another player's.
func readID(value any, longest int) (string, error) {
	id, isString := value.(string)
	if !isString {
		return "", invalid("an id is a string")
	}
	// len(id) counts bytes; a limit is in code points.
	if strings.TrimSpace(id) == "" || utf8.RuneCountInString(id) > longest || strings.Contains(id, "\x00") {
		return "", invalid("an id is blank, too long, or not storable")
	}
	return id, nil
}

func optionalID(document object, longest int, names ...string) (string, error) {
	value, isThere := first(document, names...)
	if !isThere {
		return "", nil
	}
	return readID(value, longest)
}

// first returns the value of the first of the names that is present, null included.
func first(document object, names ...string) (any, bool) {
	for _, name := range names {
		place := document
		outer, inner, isInner := strings.Cut(name, ".")
		if isInner {
			place, _ = document[outer].(object)
			name = inner
		}
		if value, isThere := place[name]; isThere {
			return value, true
		}
	}
	return nil, false
}

// --- The signature (decision 0011) -----------------------------------------------------------------------------------

// isAuthentic verifies RSA-SHA256 (PKCS#1 v1.5) over the bytes as they arrived: after parsing and writing they would be
// different bytes.
func isAuthentic(signatures []string, body []byte, publicKeys []*rsa.PublicKey) bool {
	if len(signatures) != 1 { // Twice: another reader would take the other one.
		return false
	}
	signature, err := decodeSignature(signatures[0])
	if err != nil {
		return false
	}
	digest := sha256.Sum256(body)
	for _, key := range publicKeys {
		if rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], signature) == nil {
			return true
		}
	}
	return false
}

// decodeSignature reads Base64 of either alphabet, padded or not.
func decodeSignature(header string) ([]byte, error) {
	text := strings.TrimRight(strings.TrimSpace(header), "=")
	return base64.RawStdEncoding.DecodeString(strings.NewReplacer("-", "+", "_", "/").Replace(text))
}

// readPublicKeys reads the public keys of a PEM file: one, or during a rotation both.
func readPublicKeys(file string) ([]*rsa.PublicKey, error) {
	const advice = "Pass the public half of the key that the service signs with."
	contents, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read (%w). %s", file, errors.Unwrap(err), advice)
	}
	var keys []*rsa.PublicKey
	for block, rest := pem.Decode(contents); block != nil; block, rest = pem.Decode(rest) {
		key, _ := x509.ParsePKIXPublicKey(block.Bytes) // nil for a block that holds something else.
		rsaKey, isRSA := key.(*rsa.PublicKey)
		if !isRSA {
			return nil, fmt.Errorf("%s does not hold an RSA public key. %s", file, advice)
		}
		keys = append(keys, rsaKey)
	}
	if keys == nil {
		return nil, fmt.Errorf("%s does not hold an RSA public key. %s", file, advice)
	}
	return keys, nil
}

// --- The wallet ------------------------------------------------------------------------------------------------------

// account is a player's money, and the last time that was returned with it.
type account struct {
	playerID          string
	cents, lastMillis int64
	isBlocked         bool
}

// bet is OPEN, SPENT (no deposit settles it), CLOSED, ROLLED_BACK, TOMBSTONE, or DECLINED with the code of the reply.
type bet struct {
	betID, playerID, txID string
	cents                 int64
	state                 string
	code, digest          sql.NullString
}

// known is the call that used (operation, tx_id), or the bet for which a tombstone holds it.
type known struct {
	content string
	heldFor sql.NullString
}

// facts is a call with all stored data about it, read in one transaction. What is not there is nil.
type facts struct {
	call    call
	now     int64
	account *account
	bet     *bet
	known   *known
}

// isRepeat: a call with this identity has a final answer, and check 2 has found the same content.
func (f facts) isRepeat() bool { return f.known != nil && !f.known.heldFor.Valid }

// reply is the answer (spec §2.1); without a balance if no account was read.
type reply struct {
	outcome         string
	hasBalance      bool
	cents, atMillis int64
}

// wallet is the four webhooks (spec §4.1) over one SQLite database.
type wallet struct {
	publicKeys []*rsa.PublicKey
	instances  map[string]bool // nil: any.
	database   *sql.DB
}

func openWallet(publicKeys []*rsa.PublicKey, database string, instances map[string]bool) (*wallet, error) {
	// database/sql begins with a plain BEGIN, and two calls could read before either writes: _txlock changes that.
	settings := "?_txlock=immediate&_busy_timeout=30000&_journal_mode=WAL&_synchronous=FULL"
	db, err := sql.Open("sqlite3", database+settings)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // One writer at a time: calls wait here instead of asking SQLite again and again.
	_, err = db.Exec(schema)
	return &wallet{publicKeys, instances, db}, err
}

// openAccount opens an account, unless the database file has it already.
func (w *wallet) openAccount(playerID string, cents int64) error {
	_, err := w.database.Exec("INSERT OR IGNORE INTO accounts VALUES (?, ?, 0, 0)", playerID, cents)
	return err
}

// answer returns the reply. A failure, a panic included, is SYSTEM_ERROR, rolled back, and says nothing about it.
func (w *wallet) answer(operation string, signatures []string, body []byte) (answered reply) {
	defer func() {
		if recover() != nil {
			answered = reply{outcome: "SYSTEM_ERROR"}
		}
	}()
	if len(body) > maxBody {
		// Nobody has read what it says, so nothing final may be said of it.
		return reply{outcome: "SYSTEM_ERROR"}
	}
	if !isAuthentic(signatures, body, w.publicKeys) {
		return reply{outcome: "INVALID_SIGNATURE"}
	}
	answered, err := w.answerSigned(operation, body)
	if errors.Is(err, errInvalidRequest) {
		return reply{outcome: "INVALID_REQUEST"}
	}
	if err != nil {
		return reply{outcome: "SYSTEM_ERROR"}
	}
	return answered
}

// answerSigned carries a call out in one transaction. Every reply is committed, and a failure is rolled back.
func (w *wallet) answerSigned(operation string, body []byte) (reply, error) {
	c, err := readCall(operation, body)
	if err != nil {
		return reply{}, err
	}
	if w.isForeign(c) {
		return reply{}, invalid("another operator's instance")
	}
	tx, err := w.database.Begin()
	if err != nil {
		return reply{}, err
	}
	defer tx.Rollback() // Does nothing after the commit.
	answered, err := books{tx}.carryOut(c)
	if err != nil {
		return reply{}, err
	}
	return answered, tx.Commit()
}

// isForeign: a service may sign for all its operators with one key, so withdraws and claims must name an instance.
func (w *wallet) isForeign(c call) bool {
	if w.instances == nil || !(c.operation == "withdraw" || c.isClaim()) {
		return false
	}
	id, _ := c.instanceID.(string)
	return !w.instances[id]
}

// --- The order of checks (decision 0014) -----------------------------------------------------------------------------

// books is the database within one transaction.
type books struct{ tx *sql.Tx }

// carryOut returns the reply of the first check that has one. "" is none.
func (b books) carryOut(c call) (reply, error) {
	f, err := b.facts(c)
	if err != nil {
		return reply{}, err
	}
	for _, ask := range []func(facts) (string, error){b.askBody, b.askIdentity, b.askPlayer, b.askTable} {
		outcome, err := ask(f)
		if err != nil {
			return reply{}, err
		}
		if outcome != "" {
			return b.reply(f, outcome)
		}
	}
	return reply{}, errors.New("no check has an answer")
}

func (b books) facts(c call) (f facts, err error) {
	f = facts{call: c, now: time.Now().UnixMilli()}
	if !c.isClaim() && c.betID != "" {
		if f.bet, err = b.findBet(c.betID); err != nil {
			return f, err
		}
	}
	if c.betID != "" && c.txID == "" {
		f.call.txID = derivedTxID(c, f.bet)
	}
	if f.account, err = b.findAccount(c.playerID); err != nil {
		return f, err
	}
	f.known, err = b.findCall(c.operation, f.call.txID)
	return f, err
}

// askBody is check 1: is it its withdraw's own body? The signature does not cover the path (decision 0011).
func (b books) askBody(f facts) (string, error) {
	if f.call.operation == "rollback" && f.bet != nil && f.bet.digest.String == f.call.digest {
		return "INVALID_REQUEST", nil
	}
	return "", nil
}

// askIdentity is check 2: is the identity known with other content, or held by another bet's tombstone?
func (b books) askIdentity(f facts) (string, error) {
	if f.known != nil && !isSame(f.call, f.known) {
		return "DUPLICATE_TRANSACTION", nil
	}
	return "", nil
}

// askPlayer is check 3: is the player unknown? For an unseen bet the answer is final, even if the account is opened.
func (b books) askPlayer(f facts) (string, error) {
	switch {
	case f.account != nil:
		return "", nil
	case f.bet == nil && f.call.operation == "withdraw":
		return "PLAYER_NOT_FOUND", b.decline(f.call, "PLAYER_NOT_FOUND")
	case f.bet == nil && f.call.operation == "rollback":
		return "PLAYER_NOT_FOUND", b.entomb(f.call)
	}
	return "PLAYER_NOT_FOUND", nil
}

// askTable is check 4: what is the state of the bet?
func (b books) askTable(f facts) (string, error) {
	switch {
	case f.call.operation == "withdraw":
		return b.withdraw(f)
	case f.call.isClaim():
		return b.claim(f)
	case f.call.operation == "deposit":
		return b.deposit(f)
	case f.call.operation == "rollback":
		return b.rollback(f)
	}
	return success, nil // player-balance
}

func (b books) withdraw(f facts) (string, error) {
	switch {
	case f.bet == nil:
		return b.place(f)
	case f.bet.state == "ROLLED_BACK" || f.bet.state == "TOMBSTONE":
		return "BET_ROLLED_BACK", nil
	case !f.isRepeat():
		return "DUPLICATE_TRANSACTION", nil
	case f.bet.code.Valid:
		return f.bet.code.String, nil
	}
	return success, nil
}

func (b books) place(f facts) (string, error) {
	if code := refusal(f); code != "" {
		return code, b.decline(f.call, code)
	}
	return success, b.debit(f)
}

func (b books) debit(f facts) error {
	state := "OPEN"
	if f.call.action == "RAIN" {
		state = "SPENT"
	}
	if err := b.move(f, f.call.playerID, -f.call.cents); err != nil {
		return err
	}
	if err := b.remember(f.call); err != nil {
		return err
	}
	return b.keepBet(f.call, state)
}

func (b books) deposit(f facts) (string, error) {
	if f.bet == nil || f.bet.state == "DECLINED" {
		return "BET_NOT_FOUND", nil
	}
	if f.isRepeat() {
		return success, nil
	}
	switch f.bet.state {
	case "OPEN", "CLOSED", "ROLLED_BACK":
		if f.call.playerID != f.bet.playerID {
			return "BET_NOT_FOUND", nil
		}
	}
	if f.bet.state != "OPEN" {
		return notOpen[f.bet.state], nil
	}
	return success, b.settle(f)
}

// settle credits the winnings. An amount of 0 is a loss, which settles the bet too.
func (b books) settle(f facts) error {
	if err := b.move(f, f.bet.playerID, f.call.cents); err != nil {
		return err
	}
	if err := b.remember(f.call); err != nil {
		return err
	}
	return b.setState(f.bet, "CLOSED")
}

// claim pays a free bet's or jackpot's winnings: once for each tx_id, in any state of any bet.
func (b books) claim(f facts) (string, error) {
	if f.isRepeat() {
		return success, nil
	}
	if err := b.move(f, f.call.playerID, f.call.cents); err != nil {
		return "", err
	}
	return success, b.remember(f.call)
}

func (b books) rollback(f facts) (string, error) {
	switch {
	case f.bet == nil:
		return "BET_NOT_FOUND", b.entomb(f.call)
	case f.bet.state == "TOMBSTONE" || f.bet.state == "DECLINED" || !agrees(f.call, f.bet):
		return "BET_NOT_FOUND", nil
	case f.bet.state == "CLOSED":
		return "BET_ALREADY_CLOSED", nil
	case f.bet.state == "ROLLED_BACK":
		return success, nil
	}
	return success, b.refund(f)
}

// refund gives back the amount that was taken, not the amount in the rollback.
func (b books) refund(f facts) error {
	if err := b.move(f, f.bet.playerID, f.bet.cents); err != nil {
		return err
	}
	if err := b.remember(f.call); err != nil {
		return err
	}
	return b.setState(f.bet, "ROLLED_BACK")
}

// --- The books -------------------------------------------------------------------------------------------------------

func (b books) run(statement string, values ...any) error {
	_, err := b.tx.Exec(statement, values...)
	return err
}

func (b books) findAccount(playerID string) (*account, error) {
	var a account
	row := b.tx.QueryRow("SELECT player_id, cents, last_millis, blocked FROM accounts WHERE player_id = ?", playerID)
	err := row.Scan(&a.playerID, &a.cents, &a.lastMillis, &a.isBlocked)
	return orNil(&a, err)
}

func (b books) findBet(betID string) (*bet, error) {
	var found bet
	statement := "SELECT bet_id, player_id, tx_id, cents, state, code, digest FROM bets WHERE bet_id = ?"
	row := b.tx.QueryRow(statement, betID)
	err := row.Scan(
		&found.betID, &found.playerID, &found.txID, &found.cents, &found.state, &found.code, &found.digest)
	return orNil(&found, err)
}

// findCall never looks for the tx_id alone, because a rollback has its withdraw's.
func (b books) findCall(operation, txID string) (*known, error) {
	var k known
	row := b.tx.QueryRow("SELECT content, held_for FROM calls WHERE operation = ? AND tx_id = ?", operation, txID)
	err := row.Scan(&k.content, &k.heldFor)
	return orNil(&k, err)
}

// orNil makes nil of a row that is not there, which is no failure.
func orNil[Row any](row *Row, err error) (*Row, error) {
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return row, err
}

// move moves money, at a time after all returned ones. Beyond 64 bits Go would go on at the other end without a word.
func (b books) move(f facts, playerID string, cents int64) error {
	a, err := b.findAccount(playerID)
	if err != nil {
		return err
	}
	if a == nil || cents > 0 && a.cents > math.MaxInt64-cents {
		return errors.New("the account of a bet is missing, or the balance does not fit")
	}
	atMillis := later(f.now, a.lastMillis+1)
	statement := "UPDATE accounts SET cents = ?, last_millis = ? WHERE player_id = ?"
	if err := b.run(statement, a.cents+cents, atMillis, playerID); err != nil {
		return err
	}
	statement = "INSERT INTO postings VALUES (?, ?, ?, ?, ?)"
	return b.run(statement, f.call.operation, f.call.txID, playerID, cents, atMillis)
}

func (b books) remember(c call) error {
	return b.run("INSERT INTO calls VALUES (?, ?, ?, NULL)", c.operation, c.txID, contentOf(c))
}

// keepBet stores a debited bet, with its body's digest: on /rollback that body would be a refund.
func (b books) keepBet(c call, state string) error {
	statement := "INSERT INTO bets VALUES (?, ?, ?, ?, ?, NULL, ?)"
	return b.run(statement, c.betID, c.playerID, c.txID, c.cents, state, c.digest)
}

// decline makes a refusal final: the same withdraw gets the same answer, with any later balance.
func (b books) decline(c call, code string) error {
	if err := b.remember(c); err != nil {
		return err
	}
	statement := "INSERT INTO bets VALUES (?, ?, ?, ?, 'DECLINED', ?, NULL)"
	return b.run(statement, c.betID, c.playerID, c.txID, c.cents, code)
}

// entomb stops a late withdraw: it holds the bet and its withdraw's tx_id, unless another bet has that tx_id.
func (b books) entomb(c call) error {
	held, err := b.findCall("withdraw", c.txID)
	if err != nil || held != nil {
		return err
	}
	if err := b.remember(c); err != nil {
		return err
	}
	if err := b.run("INSERT INTO calls VALUES ('withdraw', ?, '', ?)", c.txID, c.betID); err != nil {
		return err
	}
	return b.run("INSERT INTO bets VALUES (?, ?, ?, 0, 'TOMBSTONE', NULL, NULL)", c.betID, c.playerID, c.txID)
}

func (b books) setState(changed *bet, state string) error {
	return b.run("UPDATE bets SET state = ? WHERE bet_id = ?", state, changed.betID)
}

// --- The reply (decision 0012) ---------------------------------------------------------------------------------------

// reply has today's balance of the player that the call names, for a repeat as well, still in the transaction.
func (b books) reply(f facts, outcome string) (reply, error) {
	a, err := b.findAccount(f.call.playerID)
	if err != nil || a == nil || outcome == "PLAYER_NOT_FOUND" {
		return reply{outcome: outcome}, err
	}
	// Never earlier than the balance in the same reply.
	return reply{outcome, true, a.cents, later(f.now, a.lastMillis)}, nil
}

func later(one, other int64) int64 {
	if one > other {
		return one
	}
	return other
}

// derivedTxID makes the tx_id of a body without one. A rollback gets its withdraw's.
func derivedTxID(c call, found *bet) string {
	operation := c.operation
	if operation == "rollback" {
		if found != nil {
			return found.txID
		}
		operation = "withdraw"
	}
	return operation + ":" + strings.ToLower(c.action) + ":" + c.betID
}

func isSame(c call, k *known) bool {
	if k.heldFor.Valid {
		return k.heldFor.String == c.betID
	}
	return k.content == contentOf(c)
}

// contentOf has the values that must agree. Bytes, order of keys, round, game and unknown fields may differ.
func contentOf(c call) string {
	values := []any{c.playerID, c.betID}
	if c.operation != "rollback" {
		if c.isClaim() {
			values[1] = nil
		}
		values = append(values, c.action, c.cents)
	}
	content, err := json.Marshal(values)
	if err != nil {
		panic(err) // Strings and an int64 can be written.
	}
	return string(content)
}

// refusal is check 5, only for a withdraw that is about to debit.
func refusal(f facts) string {
	switch {
	case f.account.isBlocked:
		return "PLAYER_BLOCKED"
	case f.account.cents < f.call.cents:
		return "INSUFFICIENT_BALANCE"
	}
	return ""
}

// agrees says whether a rollback names the bet's player and its withdraw.
func agrees(c call, found *bet) bool { return c.playerID == found.playerID && c.txID == found.txID }

// render writes the reply by hand: json.Marshal would write a float of 95.00 as 95.
func render(answered reply) string {
	members := `"type":"SUCCESS"`
	if answered.outcome != success {
		members = fmt.Sprintf(`"type":"ERROR","code":"%s"`, answered.outcome)
	}
	if answered.hasBalance {
		members += fmt.Sprintf(`,"balance":%s,"timestamp":%d`, renderBalance(answered.cents), answered.atMillis)
	}
	return "{" + members + "}"
}

// renderBalance writes two decimals, digit for digit (decision 0012): float64(cents) / 100 would be inexact.
func renderBalance(cents int64) string {
	sign := ""
	if cents < 0 {
		sign, cents = "-", -cents
	}
	return fmt.Sprintf("%s%d.%02d", sign, cents/100, cents%100)
}

// --- HTTP ------------------------------------------------------------------------------------------------------------

// ServeHTTP answers every call with HTTP 200, refusals too (spec §4.1). Only what is not a call gets another status.
func (w *wallet) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	body, err := readBody(request.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // The caller disconnected within the body, and gets no answer.
	}
	status, answered := http.StatusOK, reply{outcome: "INVALID_REQUEST"}
	operation, isKnown := operations[request.RequestURI]
	switch {
	case !isKnown:
		status = http.StatusNotFound
	case request.Method != http.MethodPost:
		status = http.StatusMethodNotAllowed
		response.Header().Set("Allow", http.MethodPost)
	default:
		// Get would return the first of two signatures; Values returns both.
		answered = w.answer(operation, request.Header.Values("Signature"), body)
	}
	response.Header().Set("Content-Type", "application/json")
	response.WriteHeader(status)
	io.WriteString(response, render(answered)) // Put your own log here, without signatures.
}

// readBody reads the raw bytes. Beyond the limit they are read and dropped, so that the caller gets to the reply.
func readBody(reader io.Reader) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(reader, maxBody+1))
	if err != nil {
		return nil, err
	}
	_, err = io.CopyN(io.Discard, reader, maxDiscarded)
	if errors.Is(err, io.EOF) {
		return body, nil
	}
	return nil, errors.New("the body does not end")
}

// serve serves the wallet on this machine until Ctrl-C. Go's listen backlog, the system's own, is long enough.
func serve(w *wallet, port string) error {
	// Listen takes the names of services, too.
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("Port %s is invalid. Use a number from 0 to 65535.", port)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		return fmt.Errorf("Port %s cannot be used (%w). Pass a port that is free.", port, errors.Unwrap(err))
	}
	server := &http.Server{Handler: w, ReadTimeout: 30 * time.Second, IdleTimeout: 75 * time.Second}
	stopped, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		<-stopped.Done()
		patience, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		done <- server.Shutdown(patience) // Calls under way get their answers.
	}()
	fmt.Printf("http://%s until Ctrl-C\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-done
}

func run(publicKeyFile, port string, playerIDs []string) error {
	publicKeys, err := readPublicKeys(publicKeyFile)
	if err != nil {
		return err
	}
	database := os.Getenv("DATABASE")
	if database == "" {
		database = ":memory:"
	}
	var instances map[string]bool
	if names := os.Getenv("INSTANCES"); names != "" {
		instances = map[string]bool{}
		for _, name := range strings.Split(names, ",") {
			instances[name] = true
		}
	}
	w, err := openWallet(publicKeys, database, instances)
	if err != nil {
		return err
	}
	defer w.database.Close()
	for _, playerID := range playerIDs {
		if err := w.openAccount(playerID, 10_000); err != nil {
			return err
		}
	}
	return serve(w, port)
}

func main() {
	log.SetFlags(0) // One line that says what to do, without the time.
	if len(os.Args) < 3 {
		log.Fatal("Usage: wallet service.pub.pem PORT PLAYER...")
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		log.Fatal(err)
	}
}
