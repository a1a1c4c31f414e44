<?php

/**
 * A complete wallet by hand in PHP (8.2 or newer): openssl, and PDO with SQLite for the database.
 *
 * The rules, their names and their order are those of ../wallet_by_hand.py, and docs/tutorials/another-language.md has
 * them. Where the specification is silent, they follow docs/decisions/0010 to 0014.
 *
 *     php wallet.php service.pub.pem 8000 p1 p2    # serves a wallet in which both players have 100.00
 *
 * DATABASE names a file that processes may share; without it the file is a temporary one. INSTANCES are your game
 * instances, separated by commas: withdraws and claims for any other are refused. During a rotation of keys the PEM
 * file holds both public keys, one below the other.
 *
 * The command starts PHP's built-in server, which runs this file for each call. PHP-FPM runs it in the same way, with
 * PUBLIC_KEY, DATABASE and INSTANCES in its environment, and enable_post_data_reading=0 in its settings.
 */

declare(strict_types=1);

const OPERATIONS = [
    '/withdraw' => 'withdraw',
    '/deposit' => 'deposit',
    '/rollback' => 'rollback',
    '/player-balance' => 'player-balance',
];
const MAX_BODY = 65_536;
const MAX_LEVELS = 64;
const MAX_ID = 256;
const MAX_TX_ID = 320;
const MAX_CENTS = 10 ** 15;
const SUCCESS = 'SUCCESS';

/** Why a bet that is not OPEN cannot be settled. */
const NOT_OPEN = [
    'SPENT' => 'BET_ALREADY_CLOSED',
    'CLOSED' => 'BET_ALREADY_CLOSED',
    'ROLLED_BACK' => 'BET_ROLLED_BACK',
    'TOMBSTONE' => 'BET_ROLLED_BACK',
];

/** The database enforces uniqueness: two calls at once cannot both insert. All money is in whole cents. */
const SCHEMA = <<<'SQL'
    CREATE TABLE IF NOT EXISTS accounts (
        player_id TEXT PRIMARY KEY, cents INTEGER NOT NULL, last_millis INTEGER NOT NULL, blocked INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS bets (
        bet_id TEXT PRIMARY KEY, player_id TEXT NOT NULL, tx_id TEXT NOT NULL, cents INTEGER NOT NULL,
        state TEXT NOT NULL, code TEXT, digest TEXT);
    CREATE TABLE IF NOT EXISTS calls (
        operation TEXT, tx_id TEXT, content TEXT NOT NULL, held_for TEXT, PRIMARY KEY (operation, tx_id));
    CREATE TABLE IF NOT EXISTS postings (
        operation TEXT, tx_id TEXT, player_id TEXT NOT NULL, cents INTEGER NOT NULL, at_millis INTEGER NOT NULL,
        PRIMARY KEY (operation, tx_id));
    SQL;

/** The body is not a valid call (decision 0010). */
final class InvalidRequestException extends RuntimeException
{
}

// --- Strict JSON (decision 0010) -------------------------------------------------------------------------------------

/** A number as written in the JSON text: json_decode makes floats, in which 9007199254740993.0 is another number. */
final class JsonNumber
{
    public function __construct(public readonly string $text)
    {
    }
}

/** An object. json_decode's arrays cannot tell {} from []. */
final class JsonObject
{
    /** @param array<mixed> $members PHP turns the key "7" into the integer 7, and looks for "7" under 7 as well. */
    public function __construct(private readonly array $members)
    {
    }

    public function has(string $name): bool
    {
        return array_key_exists($name, $this->members); // isset() would not see a null.
    }

    public function get(string $name): mixed
    {
        return $this->members[$name] ?? null;
    }
}

/** Reads JSON as its grammar has it. Of two members with one name json_decode keeps the last. */
final class JsonReader
{
    private const SPACE = '/\G[ \t\n\r]*+/';
    private const STRING = '/\G"(?:[^"\\\\\x00-\x1f]++|\\\\(?:["\\\\\/bfnrt]|u[0-9a-fA-F]{4}))*+"/';
    private const NUMBER = '/\G-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/';
    private const WORD = '/\G(?:true|false|null)/';

    private int $at = 0;

    public function __construct(private readonly string $text)
    {
        if (preg_match('//u', $text) !== 1) {
            throw new InvalidRequestException('the body is not UTF-8');
        }
    }

    public function document(): mixed
    {
        $value = $this->value(0);
        $this->match(self::SPACE);
        if ($this->at < strlen($this->text)) {
            throw new InvalidRequestException('something follows the document');
        }
        return $value;
    }

    private function value(int $level): mixed
    {
        if ($this->skip('{')) {
            return $this->object($level + 1);
        }
        if ($this->skip('[')) {
            return $this->list($level + 1);
        }
        $number = $this->match(self::NUMBER);
        if ($number !== null) {
            return new JsonNumber($number);
        }
        $word = $this->match(self::WORD);
        return $word === null ? $this->string() : json_decode($word);
    }

    private function object(int $level): JsonObject
    {
        $this->checkLevel($level);
        $members = [];
        if ($this->skip('}')) {
            return new JsonObject($members);
        }
        do {
            $name = $this->string();
            if (array_key_exists($name, $members)) {
                throw new InvalidRequestException('a member stands twice');
            }
            $this->expect(':');
            $members[$name] = $this->value($level);
        } while ($this->skip(','));
        $this->expect('}');
        return new JsonObject($members);
    }

    /** @return list<mixed> */
    private function list(int $level): array
    {
        $this->checkLevel($level);
        $items = [];
        if ($this->skip(']')) {
            return $items;
        }
        do {
            $items[] = $this->value($level);
        } while ($this->skip(','));
        $this->expect(']');
        return $items;
    }

    private function checkLevel(int $level): void
    {
        if ($level > MAX_LEVELS) {
            throw new InvalidRequestException('too many levels');
        }
    }

    /** PHP cannot hold half a surrogate pair. U+0000 stands for it, which is allowed in a name but not in an id. */
    private function string(): string
    {
        $this->match(self::SPACE);
        $string = $this->match(self::STRING);
        if ($string === null) {
            throw new InvalidRequestException('the body is not JSON');
        }
        // Of a single string json_decode loses nothing.
        return json_decode($string) ?? json_decode(preg_replace('/\\\\u[dD][89a-fA-F]../', '\u0000', $string));
    }

    private function skip(string $character): bool
    {
        $this->match(self::SPACE);
        $isThere = ($this->text[$this->at] ?? '') === $character;
        $this->at += (int) $isThere;
        return $isThere;
    }

    private function expect(string $character): void
    {
        if (!$this->skip($character)) {
            throw new InvalidRequestException('the body is not JSON');
        }
    }

    private function match(string $pattern): ?string
    {
        if (preg_match($pattern, $this->text, $found, 0, $this->at) !== 1) {
            return null;
        }
        $this->at += strlen($found[0]);
        return $found[0];
    }
}

// --- Reading (decision 0010) -----------------------------------------------------------------------------------------

/** A body that was read. A rollback's cents are not read: it refunds what was taken. */
final class Call
{
    public function __construct(
        public readonly string $operation,
        public readonly string $playerId,
        public readonly ?string $betId = null,
        public readonly ?string $txId = null,
        public readonly string $action = 'BET',
        public readonly int $cents = 0,
        public readonly mixed $instanceId = null,
        public readonly string $digest = '',
    ) {
    }

    /** A claim neither reads nor changes a bet, even one that it names (decision 0014). */
    public function isClaim(): bool
    {
        return $this->operation === 'deposit' && $this->action !== 'BET';
    }

    public function withTxId(?string $txId): self
    {
        return new self(...['txId' => $txId] + get_object_vars($this));
    }
}

function readCall(string $operation, string $body): Call
{
    $document = (new JsonReader($body))->document();
    if (!$document instanceof JsonObject) {
        throw new InvalidRequestException('not an object');
    }
    $playerId = readId($document->get('player_id'), MAX_ID);
    if ($operation === 'player-balance') {
        return new Call($operation, $playerId);
    }
    checkShape($operation, $document);
    $call = new Call(
        operation: $operation,
        playerId: $playerId,
        betId: optionalId($document, MAX_ID, 'action_id', 'bet_id', 'reference_id'),
        txId: optionalId($document, MAX_TX_ID, 'tx_id', 'transaction_id'),
        action: readAction($operation, $document),
        cents: $operation === 'rollback' ? 0 : readAmount($operation, $document),
        instanceId: $document->get('instance_id'),
        digest: hash('sha256', $body),
    );
    if ($call->betId === null && ($call->txId === null || !$call->isClaim())) {
        throw new InvalidRequestException('the bet is missing');
    }
    return $call;
}

/** A body must have the form of its path's calls, because the signature does not cover the path. */
function checkShape(string $operation, JsonObject $document): void
{
    $isDeposit = $operation === 'deposit';
    $action = $document->get('action');
    $fits = $document->has('action')
        ? ($isDeposit ? $action instanceof JsonObject : is_string($action))
        : $document->has('won') === $isDeposit;
    if (!$fits) {
        throw new InvalidRequestException("this is not a $operation");
    }
}

function readAction(string $operation, JsonObject $document): string
{
    if (!$document->has('action')) {
        return 'BET';
    }
    $isDeposit = $operation === 'deposit';
    $action = $isDeposit ? $document->get('action')->get('type') : $document->get('action');
    // Strictly: without the third argument in_array compares by ==, and true == 'BET'.
    if (!in_array($action, $isDeposit ? ['BET', 'FREE_BET_CLAIM', 'JACKPOT'] : ['BET', 'RAIN'], true)) {
        throw new InvalidRequestException('an unknown action');
    }
    return $action;
}

/** Read whole cents: 500 and 500.0, but not "500", 5.5, 5e2, true or -1. */
function readAmount(string $operation, JsonObject $document): int
{
    $names = $operation === 'withdraw' ? ['amount', 'wager'] : ['amount', 'won', 'action.won'];
    $value = first($document, ...$names);
    // \z, because $ also matches before a line break at the end.
    $isWhole = $value instanceof JsonNumber
        && preg_match('/\A(-?0|[1-9][0-9]{0,15})(?:\.0+)?\z/', $value->text, $digits) === 1;
    if (!$isWhole || (int) $digits[1] > MAX_CENTS) {
        throw new InvalidRequestException('not an amount in cents');
    }
    $cents = (int) $digits[1];
    if ($operation === 'withdraw' && $cents === 0) {
        throw new InvalidRequestException('a withdraw of nothing');
    }
    return $cents;
}

/** Return the id unchanged: trimmed, folded or normalised it could be another player's. */
function readId(mixed $value, int $longest): string
{
    if (!is_string($value)) {
        throw new InvalidRequestException('an id is a string');
    }
    // With /u a character is a code point; strlen() counts bytes.
    $isKept = preg_match('/\A[^\0]{1,' . $longest . '}\z/u', $value) === 1;
    if (!$isKept || preg_match('/\A[\s\pZ]*\z/u', $value) === 1) {
        throw new InvalidRequestException('an id is blank, too long, or not storable');
    }
    return $value;
}

function optionalId(JsonObject $document, int $longest, string ...$names): ?string
{
    $value = first($document, ...$names);
    return $value instanceof Missing ? null : readId($value, $longest);
}

enum Missing
{
    case Member;
}

/** Return the value of the first of the names that is present, null included; Missing::Member if all are missing. */
function first(JsonObject $document, string ...$names): mixed
{
    foreach ($names as $name) {
        [$outer, $inner] = [...explode('.', $name), null];
        $place = $inner === null ? $document : $document->get($outer);
        if ($place instanceof JsonObject && $place->has($inner ?? $outer)) {
            return $place->get($inner ?? $outer);
        }
    }
    return Missing::Member;
}

// --- The signature (decision 0011) -----------------------------------------------------------------------------------

/**
 * RSA-SHA256 (PKCS#1 v1.5) over the bytes as they arrived: after parsing and writing they would be different bytes.
 *
 * @param list<OpenSSLAsymmetricKey> $publicKeys
 */
function isAuthentic(?string $header, string $body, array $publicKeys): bool
{
    $signature = decodeSignature($header ?? '');
    if ($signature === null) {
        return false;
    }
    foreach ($publicKeys as $key) {
        // 1 is valid, 0 is not, and -1 is an error, which counts as true.
        if (openssl_verify($body, $signature, $key, OPENSSL_ALGO_SHA256) === 1) {
            return true;
        }
    }
    return false;
}

/** Read Base64 of either alphabet, padded or not. A header that is sent twice arrives as "one, other", which is not Base64. */
function decodeSignature(string $header): ?string
{
    $text = strtr(rtrim(trim($header), '='), '-_', '+/');
    if (preg_match('/\A[A-Za-z0-9+\/]+\z/', $text) !== 1 || strlen($text) % 4 === 1) {
        return null;
    }
    return base64_decode($text, true) ?: null;
}

/**
 * Read the public keys of a PEM file: one, or during a rotation both.
 *
 * @return list<OpenSSLAsymmetricKey>
 */
function readPublicKeys(string $file): array
{
    $advice = 'Pass the public half of the key that the service signs with.';
    $text = is_file($file) ? @file_get_contents($file) : false;
    if ($text === false) {
        throw new RuntimeException("$file cannot be read. $advice");
    }
    preg_match_all('/-----BEGIN PUBLIC KEY-----[^-]+-----END PUBLIC KEY-----/', $text, $blocks);
    $keys = array_map(openssl_pkey_get_public(...), $blocks[0]);
    $isRsa = fn ($key) => $key !== false && openssl_pkey_get_details($key)['type'] === OPENSSL_KEYTYPE_RSA;
    // Without a key all calls would be refused, one by one.
    if ($keys === [] || array_filter($keys, $isRsa) !== $keys) {
        throw new RuntimeException("$file does not hold an RSA public key. $advice");
    }
    return $keys;
}

// --- The wallet ------------------------------------------------------------------------------------------------------

/** A player's money, and the last time that was returned with it. */
final class Account
{
    public string $player_id;
    public int $cents;
    public int $last_millis;
    public int $blocked;
}

/** OPEN, SPENT (no deposit settles it), CLOSED, ROLLED_BACK, TOMBSTONE, or DECLINED with the code of the reply. */
final class Bet
{
    public string $bet_id;
    public string $player_id;
    public string $tx_id;
    public int $cents;
    public string $state;
    public ?string $code;
    public ?string $digest;
}

/** The call that used (operation, tx_id), or the bet for which a tombstone holds it. */
final class Known
{
    public string $content;
    public ?string $held_for;
}

/** A call with all stored data about it, read in one transaction. */
final class Facts
{
    public function __construct(
        public readonly Call $call,
        public readonly int $now,
        public readonly ?Account $account,
        public readonly ?Bet $bet,
        public readonly ?Known $known,
    ) {
    }

    /** A call with this identity has a final answer, and check 2 has found the same content. */
    public function isRepeat(): bool
    {
        return $this->known !== null && $this->known->held_for === null;
    }
}

/** The answer (spec §2.1). */
final class Reply
{
    public function __construct(
        public readonly string $outcome,
        public readonly ?int $cents = null,
        public readonly ?int $atMillis = null,
    ) {
    }
}

/** The four webhooks (spec §4.1) over one SQLite database. */
final class Wallet
{
    private readonly PDO $database;

    /**
     * @param list<OpenSSLAsymmetricKey> $publicKeys
     * @param list<string>|null $instances
     */
    public function __construct(
        private readonly array $publicKeys,
        string $database,
        private readonly ?array $instances = null,
    ) {
        $this->database = new PDO("sqlite:$database", options: [PDO::ATTR_TIMEOUT => 30]);
        $this->database->exec('PRAGMA synchronous = FULL');
    }

    /** Make the tables, once for the file. */
    public function makeTables(): void
    {
        $this->database->exec('PRAGMA journal_mode = WAL');
        $this->database->exec(SCHEMA);
    }

    /** Open an account, unless the database file has it already. */
    public function openAccount(string $playerId, int $cents): void
    {
        $this->run('INSERT OR IGNORE INTO accounts VALUES (?, ?, 0, 0)', $playerId, $cents);
    }

    /** Return the reply's text. Never throws: a failure is SYSTEM_ERROR, rolled back, and says nothing about it. */
    public function answer(string $operation, ?string $signature, string $body): string
    {
        try {
            if (strlen($body) > MAX_BODY) {
                return render(new Reply('SYSTEM_ERROR')); // Nobody has read what it says, so nothing final may be said of it.
            }
            if (!isAuthentic($signature, $body, $this->publicKeys)) {
                return render(new Reply('INVALID_SIGNATURE'));
            }
            $call = readCall($operation, $body);
            if ($this->isForeign($call)) {
                throw new InvalidRequestException("another operator's instance");
            }
            return render($this->inTransaction(fn (): Reply => $this->carryOut($call)));
        } catch (InvalidRequestException) {
            return render(new Reply('INVALID_REQUEST'));
        } catch (Throwable) {
            return render(new Reply('SYSTEM_ERROR'));
        }
    }

    /** A service may sign for all its operators with one key, so withdraws and claims must name an instance. */
    private function isForeign(Call $call): bool
    {
        if ($this->instances === null || !($call->operation === 'withdraw' || $call->isClaim())) {
            return false;
        }
        return !in_array($call->instanceId, $this->instances, true);
    }

    // --- The order of checks (decision 0014) -------------------------------------------------------------------------

    /** Return the reply of the first check that has one. */
    private function carryOut(Call $call): Reply
    {
        $facts = $this->facts($call);
        $outcome = $this->askBody($facts)
            ?? $this->askIdentity($facts)
            ?? $this->askPlayer($facts)
            ?? $this->askTable($facts);
        return $this->reply($facts, $outcome);
    }

    private function facts(Call $call): Facts
    {
        $bet = $call->isClaim() || $call->betId === null ? null : $this->findBet($call->betId);
        if ($call->betId !== null) {
            $call = $call->withTxId($call->txId ?? derivedTxId($call, $bet));
        }
        $known = $this->findCall($call->operation, $call->txId);
        return new Facts($call, (int) (microtime(true) * 1000), $this->findAccount($call->playerId), $bet, $known);
    }

    /** Check 1: is it its withdraw's own body? The signature does not cover the path (decision 0011). */
    private function askBody(Facts $facts): ?string
    {
        $isItsWithdraw = $facts->call->operation === 'rollback' && $facts->bet?->digest === $facts->call->digest;
        return $isItsWithdraw ? 'INVALID_REQUEST' : null;
    }

    /** Check 2: is the identity known with other content, or held by another bet's tombstone? */
    private function askIdentity(Facts $facts): ?string
    {
        return $facts->known === null || isSame($facts->call, $facts->known) ? null : 'DUPLICATE_TRANSACTION';
    }

    /** Check 3: is the player unknown? For an unseen bet the answer is final, even if the account is opened. */
    private function askPlayer(Facts $facts): ?string
    {
        if ($facts->account !== null) {
            return null;
        }
        if ($facts->bet === null && $facts->call->operation === 'withdraw') {
            $this->decline($facts->call, 'PLAYER_NOT_FOUND');
        }
        if ($facts->bet === null && $facts->call->operation === 'rollback') {
            $this->entomb($facts->call);
        }
        return 'PLAYER_NOT_FOUND';
    }

    /** Check 4: what is the state of the bet? */
    private function askTable(Facts $facts): string
    {
        return match ($facts->call->operation) {
            'withdraw' => $this->withdraw($facts),
            'deposit' => $facts->call->isClaim() ? $this->claim($facts) : $this->deposit($facts),
            'rollback' => $this->rollback($facts),
            'player-balance' => SUCCESS,
        };
    }

    private function withdraw(Facts $facts): string
    {
        if ($facts->bet === null) {
            return $this->place($facts);
        }
        if (in_array($facts->bet->state, ['ROLLED_BACK', 'TOMBSTONE'], true)) {
            return 'BET_ROLLED_BACK';
        }
        return $facts->isRepeat() ? $facts->bet->code ?? SUCCESS : 'DUPLICATE_TRANSACTION';
    }

    private function place(Facts $facts): string
    {
        $code = refusal($facts);
        if ($code !== null) {
            $this->decline($facts->call, $code);
            return $code;
        }
        $this->debit($facts);
        return SUCCESS;
    }

    private function debit(Facts $facts): void
    {
        $this->move($facts, $facts->call->playerId, -$facts->call->cents);
        $this->remember($facts->call);
        $this->keepBet($facts->call, $facts->call->action === 'RAIN' ? 'SPENT' : 'OPEN');
    }

    private function deposit(Facts $facts): string
    {
        $bet = $facts->bet;
        if ($bet === null || $bet->state === 'DECLINED') {
            return 'BET_NOT_FOUND';
        }
        if ($facts->isRepeat()) {
            return SUCCESS;
        }
        $isNamed = $facts->call->playerId === $bet->player_id;
        if (in_array($bet->state, ['OPEN', 'CLOSED', 'ROLLED_BACK'], true) && !$isNamed) {
            return 'BET_NOT_FOUND';
        }
        if ($bet->state !== 'OPEN') {
            return NOT_OPEN[$bet->state];
        }
        $this->settle($facts, $bet);
        return SUCCESS;
    }

    /** Credit the winnings. An amount of 0 is a loss, which settles the bet too. */
    private function settle(Facts $facts, Bet $bet): void
    {
        $this->move($facts, $bet->player_id, $facts->call->cents);
        $this->remember($facts->call);
        $this->setState($bet, 'CLOSED');
    }

    /** A free bet's or jackpot's winnings: paid once for each tx_id, in any state of any bet. */
    private function claim(Facts $facts): string
    {
        if (!$facts->isRepeat()) {
            $this->move($facts, $facts->call->playerId, $facts->call->cents);
            $this->remember($facts->call);
        }
        return SUCCESS;
    }

    private function rollback(Facts $facts): string
    {
        $bet = $facts->bet;
        if ($bet === null) {
            $this->entomb($facts->call);
            return 'BET_NOT_FOUND';
        }
        if (in_array($bet->state, ['TOMBSTONE', 'DECLINED'], true) || !agrees($facts->call, $bet)) {
            return 'BET_NOT_FOUND';
        }
        if ($bet->state === 'CLOSED') {
            return 'BET_ALREADY_CLOSED';
        }
        if ($bet->state !== 'ROLLED_BACK') {
            $this->refund($facts, $bet);
        }
        return SUCCESS;
    }

    /** Give back the amount that was taken, not the amount in the rollback. */
    private function refund(Facts $facts, Bet $bet): void
    {
        $this->move($facts, $bet->player_id, $bet->cents);
        $this->remember($facts->call);
        $this->setState($bet, 'ROLLED_BACK');
    }

    // --- The books ---------------------------------------------------------------------------------------------------

    /**
     * One writer at a time. PDO's beginTransaction() only says BEGIN: then two calls read before either writes.
     *
     * @param callable(): Reply $carryOut
     */
    private function inTransaction(callable $carryOut): Reply
    {
        $this->database->exec('BEGIN IMMEDIATE');
        try {
            $reply = $carryOut();
            $this->database->exec('COMMIT');
            return $reply;
        } catch (Throwable $failure) {
            $this->database->exec('ROLLBACK');
            throw $failure;
        }
    }

    private function run(string $sql, string|int|null ...$values): PDOStatement
    {
        $statement = $this->database->prepare($sql);
        foreach ($values as $index => $value) { // execute($values) would send all as strings.
            $type = is_int($value) ? PDO::PARAM_INT : ($value === null ? PDO::PARAM_NULL : PDO::PARAM_STR);
            $statement->bindValue($index + 1, $value, $type);
        }
        $statement->execute();
        return $statement;
    }

    private function findAccount(string $playerId): ?Account
    {
        return $this->run('SELECT * FROM accounts WHERE player_id = ?', $playerId)->fetchObject(Account::class) ?: null;
    }

    private function findBet(string $betId): ?Bet
    {
        return $this->run('SELECT * FROM bets WHERE bet_id = ?', $betId)->fetchObject(Bet::class) ?: null;
    }

    /** Never by the tx_id alone, because a rollback has its withdraw's. */
    private function findCall(string $operation, ?string $txId): ?Known
    {
        $sql = 'SELECT content, held_for FROM calls WHERE operation = ? AND tx_id = ?';
        return $this->run($sql, $operation, $txId)->fetchObject(Known::class) ?: null;
    }

    /** Move money, at a time after all returned ones. Beyond 64 bits PHP makes a float, which is refused here. */
    private function move(Facts $facts, string $playerId, int $cents): void
    {
        $account = $this->findAccount($playerId) ?? throw new LogicException('the account of a bet is missing');
        $left = $account->cents + $cents;
        if (!is_int($left)) {
            throw new OverflowException('the balance does not fit');
        }
        $atMillis = max($facts->now, $account->last_millis + 1);
        $sql = 'UPDATE accounts SET cents = ?, last_millis = ? WHERE player_id = ?';
        $this->run($sql, $left, $atMillis, $playerId);
        $values = [$facts->call->operation, $facts->call->txId, $playerId, $cents, $atMillis];
        $this->run('INSERT INTO postings VALUES (?, ?, ?, ?, ?)', ...$values);
    }

    private function remember(Call $call): void
    {
        $this->run('INSERT INTO calls VALUES (?, ?, ?, NULL)', $call->operation, $call->txId, contentOf($call));
    }

    /** Store a debited bet, with its body's digest: on /rollback that body would be a refund. */
    private function keepBet(Call $call, string $state): void
    {
        $values = [$call->betId, $call->playerId, $call->txId, $call->cents, $state, $call->digest];
        $this->run('INSERT INTO bets VALUES (?, ?, ?, ?, ?, NULL, ?)', ...$values);
    }

    /** Make a refusal final: the same withdraw gets the same answer, with any later balance. */
    private function decline(Call $call, string $code): void
    {
        $this->remember($call);
        $values = [$call->betId, $call->playerId, $call->txId, $call->cents, $code];
        $this->run("INSERT INTO bets VALUES (?, ?, ?, ?, 'DECLINED', ?, NULL)", ...$values);
    }

    /** Stop a late withdraw: hold the bet and its withdraw's tx_id, unless another bet has that tx_id. */
    private function entomb(Call $call): void
    {
        if ($this->findCall('withdraw', $call->txId) !== null) {
            return;
        }
        $this->remember($call);
        $this->run("INSERT INTO calls VALUES ('withdraw', ?, '', ?)", $call->txId, $call->betId);
        $values = [$call->betId, $call->playerId, $call->txId];
        $this->run("INSERT INTO bets VALUES (?, ?, ?, 0, 'TOMBSTONE', NULL, NULL)", ...$values);
    }

    private function setState(Bet $bet, string $state): void
    {
        $this->run('UPDATE bets SET state = ? WHERE bet_id = ?', $state, $bet->bet_id);
    }

    // --- The reply (decision 0012) -----------------------------------------------------------------------------------

    /** Today's balance of the player that the call names, for a repeat as well, still in the transaction. */
    private function reply(Facts $facts, string $outcome): Reply
    {
        $account = $this->findAccount($facts->call->playerId);
        if ($account === null || $outcome === 'PLAYER_NOT_FOUND') {
            return new Reply($outcome);
        }
        // Never earlier than the balance in the same reply.
        return new Reply($outcome, $account->cents, max($facts->now, $account->last_millis));
    }
}

/** Make the tx_id of a body without one. A rollback gets its withdraw's. */
function derivedTxId(Call $call, ?Bet $bet): string
{
    if ($call->operation === 'rollback' && $bet !== null) {
        return $bet->tx_id;
    }
    $operation = $call->operation === 'rollback' ? 'withdraw' : $call->operation;
    return "$operation:" . strtolower($call->action) . ":$call->betId";
}

/** By === alone: with == two ids such as "1e3" and "1000" are equal, because both look like numbers. */
function isSame(Call $call, Known $known): bool
{
    return $known->held_for === null ? $known->content === contentOf($call) : $known->held_for === $call->betId;
}

/** The values that must agree. Bytes, order of keys, round, game and unknown fields may differ. */
function contentOf(Call $call): string
{
    $values = $call->operation === 'rollback'
        ? [$call->playerId, $call->betId]
        : [$call->playerId, $call->isClaim() ? null : $call->betId, $call->action, $call->cents];
    return json_encode($values, JSON_THROW_ON_ERROR);
}

/** Check 5, only for a withdraw that is about to debit. */
function refusal(Facts $facts): ?string
{
    if ($facts->account->blocked !== 0) {
        return 'PLAYER_BLOCKED';
    }
    return $facts->account->cents >= $facts->call->cents ? null : 'INSUFFICIENT_BALANCE';
}

/** Whether a rollback names the bet's player and its withdraw. */
function agrees(Call $call, Bet $bet): bool
{
    return $call->playerId === $bet->player_id && $call->txId === $bet->tx_id;
}

/** Written by hand: json_encode would write 95.00 as 95.0 or 95. */
function render(Reply $reply): string
{
    $members = $reply->outcome === SUCCESS ? ['"type":"SUCCESS"'] : ['"type":"ERROR"', "\"code\":\"$reply->outcome\""];
    if ($reply->cents !== null) {
        $members[] = '"balance":' . renderBalance($reply->cents);
        $members[] = "\"timestamp\":$reply->atMillis";
    }
    return '{' . implode(',', $members) . '}';
}

/** Two decimals, digit for digit (decision 0012): `$cents / 100` would be a float. */
function renderBalance(int $cents): string
{
    return sprintf('%s%d.%02d', $cents < 0 ? '-' : '', intdiv(abs($cents), 100), abs($cents) % 100);
}

// --- HTTP ------------------------------------------------------------------------------------------------------------

/** Answer every call with HTTP 200, refusals too (spec §4.1). Only what is not a call gets another status. */
function respond(): void
{
    ini_set('display_errors', '0'); // A warning would stand before the reply.
    header('Content-Type: application/json');
    $operation = OPERATIONS[$_SERVER['REQUEST_URI']] ?? null;
    if ($operation === null) {
        http_response_code(404);
        echo render(new Reply('INVALID_REQUEST'));
    } elseif ($_SERVER['REQUEST_METHOD'] !== 'POST') {
        http_response_code(405);
        header('Allow: POST');
        echo render(new Reply('INVALID_REQUEST'));
    } else {
        // The raw bytes: $_POST is what PHP made of them.
        $body = (string) file_get_contents('php://input', length: MAX_BODY + 1);
        echo respondTo($operation, $_SERVER['HTTP_SIGNATURE'] ?? null, $body);
    }
}

function respondTo(string $operation, ?string $signature, string $body): string
{
    try {
        $instances = getenv('INSTANCES') ?: null;
        $wallet = new Wallet(
            readPublicKeys((string) getenv('PUBLIC_KEY')),
            (string) getenv('DATABASE'),
            $instances === null ? null : explode(',', $instances),
        );
    } catch (Throwable) {
        return render(new Reply('SYSTEM_ERROR'));
    }
    return $wallet->answer($operation, $signature, $body);
}

/** Serve a wallet on this machine: PHP's built-in server with sixteen processes, so that a slow caller holds up one. */
function serve(string $publicKeyFile, string $port, string ...$playerIds): void
{
    $address = freeAddress($port);
    $publicKeys = readPublicKeys($publicKeyFile);
    $database = getenv('DATABASE') ?: tempnam(sys_get_temp_dir(), 'wallet-');
    $wallet = new Wallet($publicKeys, $database);
    $wallet->makeTables();
    foreach ($playerIds as $playerId) {
        $wallet->openAccount($playerId, 10_000);
    }
    $settings = ['PUBLIC_KEY' => realpath($publicKeyFile), 'DATABASE' => realpath($database)];
    $command = ['-q', '-d', 'enable_post_data_reading=0', '-S', $address, __FILE__];
    $server = pcntl_fork();
    if ($server === 0) {
        posix_setpgid(0, 0); // A group of processes, which ends as one.
        pcntl_exec(PHP_BINARY, $command, $settings + ['PHP_CLI_SERVER_WORKERS' => '16'] + getenv());
    }
    pcntl_async_signals(true);
    foreach ([SIGTERM, SIGINT] as $signal) {
        pcntl_signal($signal, fn () => posix_kill(-$server, SIGTERM), restart_syscalls: false);
    }
    while (($probe = @stream_socket_client("tcp://$address")) === false) {
        usleep(20_000);
    }
    fclose($probe);
    echo "http://$address until Ctrl-C\n";
    while (pcntl_waitpid($server, $status) !== $server && pcntl_get_last_error() === PCNTL_EINTR) {
        // Interrupted by the signal.
    }
    if (getenv('DATABASE') === false) {
        array_map(unlink(...), glob("$database*"));
    }
}

/** The address with $port, or with a free port for 0. */
function freeAddress(string $port): string
{
    // PHP itself takes "abc" for 0.
    if (preg_match('/\A[0-9]{1,5}\z/', $port) !== 1 || (int) $port > 65_535) {
        throw new RuntimeException("Port $port is invalid. Use a number from 0 to 65535.");
    }
    $socket = @stream_socket_server("tcp://127.0.0.1:$port", $code, $message)
        ?: throw new RuntimeException("Port $port cannot be used ($message). Pass a port that is free.");
    $address = stream_socket_get_name($socket, false);
    fclose($socket);
    return $address;
}

if (PHP_SAPI !== 'cli') {
    respond();
} elseif ($argc >= 3) {
    try {
        serve(...array_slice($argv, 1));
    } catch (RuntimeException $failure) {
        fwrite(STDERR, $failure->getMessage() . "\n"); // One line that says what to do, in place of a stack trace.
        exit(1);
    }
} else {
    fwrite(STDERR, "Usage: php wallet.php service.pub.pem PORT PLAYER...\n");
    exit(2);
}
