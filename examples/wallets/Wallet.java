import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.BindException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.MessageDigest;
import java.security.PublicKey;
import java.security.Signature;
import java.security.SignatureException;
import java.security.spec.InvalidKeySpecException;
import java.security.spec.X509EncodedKeySpec;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Executors;
import java.util.concurrent.locks.ReentrantLock;
import java.util.regex.Pattern;

/**
 * A complete wallet by hand in Java (17 or newer): the standard library, and sqlite-jdbc for the database.
 *
 * <p>The rules, their names and their order are those of ../wallet_by_hand.py, and docs/tutorials/own-wallet.md says why. Where
 * the specification is silent, they follow docs/decisions/0010 to 0014.
 *
 * <pre>
 * java -cp sqlite-jdbc.jar Wallet.java service.pub.pem 8000 p1 p2    # serves a wallet in which both have 100.00
 * </pre>
 *
 * <p>DATABASE names a file that processes may share; without it the database is in memory. INSTANCES are your game
 * instances, separated by commas: withdraws and claims for any other are refused. During a rotation of keys the PEM
 * file holds both public keys, one below the other.
 */
public final class Wallet {
    private static final Map<String, String> OPERATIONS = Map.of(
            "/withdraw", "withdraw",
            "/deposit", "deposit",
            "/rollback", "rollback",
            "/player-balance", "player-balance");
    private static final int MAX_BODY = 65_536;
    private static final int MAX_DISCARDED = 16_777_216;
    private static final int MAX_LEVELS = 64;
    private static final int MAX_ID = 256;
    private static final int MAX_TX_ID = 320;
    private static final long MAX_CENTS = 1_000_000_000_000_000L;
    private static final String SUCCESS = "SUCCESS";

    /** Why a bet that is not OPEN cannot be settled. */
    private static final Map<String, String> NOT_OPEN = Map.of(
            "SPENT", "BET_ALREADY_CLOSED",
            "CLOSED", "BET_ALREADY_CLOSED",
            "ROLLED_BACK", "BET_ROLLED_BACK",
            "TOMBSTONE", "BET_ROLLED_BACK");

    /** The database enforces uniqueness: two calls at once cannot both insert. All money is in whole cents. */
    private static final List<String> SCHEMA = List.of(
            """
            CREATE TABLE IF NOT EXISTS accounts (
                player_id TEXT PRIMARY KEY, cents INTEGER NOT NULL, last_millis INTEGER NOT NULL,
                blocked INTEGER NOT NULL)""",
            """
            CREATE TABLE IF NOT EXISTS bets (
                bet_id TEXT PRIMARY KEY, player_id TEXT NOT NULL, tx_id TEXT NOT NULL, cents INTEGER NOT NULL,
                state TEXT NOT NULL, code TEXT, digest TEXT)""",
            """
            CREATE TABLE IF NOT EXISTS calls (
                operation TEXT, tx_id TEXT, content TEXT NOT NULL, held_for TEXT, PRIMARY KEY (operation, tx_id))""",
            """
            CREATE TABLE IF NOT EXISTS postings (
                operation TEXT, tx_id TEXT, player_id TEXT NOT NULL, cents INTEGER NOT NULL, at_millis INTEGER NOT NULL,
                PRIMARY KEY (operation, tx_id))""");

    /** The body is not a valid call (decision 0010). */
    private static final class InvalidRequestException extends RuntimeException {
        InvalidRequestException(String message) {
            super(message);
        }
    }

    // --- Strict JSON (decision 0010) ---------------------------------------------------------------------------------

    /** A number as written in the JSON text. A double would make 9007199254740992 of 9007199254740993. */
    private record JsonNumber(String text) {}

    /**
     * Reads JSON as its grammar has it: Map, List, String, JsonNumber, Boolean or null. Java has no parser, and most
     * libraries keep the last of two members with one name, unless you set them otherwise.
     */
    private static final class JsonReader {
        private static final Pattern NUMBER = Pattern.compile("-?(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?(?:[eE][+-]?[0-9]+)?");

        private final String text;
        private int at = 0;

        JsonReader(byte[] bytes) {
            try {
                // new String(bytes, UTF_8) replaces bytes that are not UTF-8; a new decoder reports them.
                text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
            } catch (CharacterCodingException unreadable) {
                throw new InvalidRequestException("the body is not UTF-8");
            }
        }

        Object document() {
            var value = value(0);
            skipSpace();
            if (at < text.length()) {
                throw new InvalidRequestException("something follows the document");
            }
            return value;
        }

        private Object value(int level) {
            if (skip("{")) {
                return object(level + 1);
            }
            if (skip("[")) {
                return array(level + 1);
            }
            if (skip("true")) {
                return true;
            }
            if (skip("false")) {
                return false;
            }
            if (skip("null")) {
                return null;
            }
            var number = NUMBER.matcher(text).region(at, text.length());
            if (!number.lookingAt()) {
                return string();
            }
            at = number.end();
            return new JsonNumber(number.group());
        }

        private Map<String, Object> object(int level) {
            checkLevel(level);
            var members = new HashMap<String, Object>();
            if (skip("}")) {
                return members;
            }
            do {
                var name = string();
                if (members.containsKey(name)) {
                    throw new InvalidRequestException("a member stands twice");
                }
                expect(":");
                members.put(name, value(level));
            } while (skip(","));
            expect("}");
            return members;
        }

        private List<Object> array(int level) {
            checkLevel(level);
            var items = new ArrayList<Object>();
            if (skip("]")) {
                return items;
            }
            do {
                items.add(value(level));
            } while (skip(","));
            expect("]");
            return items;
        }

        private static void checkLevel(int level) {
            if (level > MAX_LEVELS) {
                throw new InvalidRequestException("too many levels");
            }
        }

        private String string() {
            expect("\"");
            var string = new StringBuilder();
            for (char character = next(); character != '"'; character = next()) {
                if (character < ' ') {
                    throw new InvalidRequestException("a control character within a string");
                }
                string.append(character == '\\' ? escaped() : character);
            }
            return string.toString();
        }

        private char escaped() {
            var character = next();
            return switch (character) {
                case '"', '\\', '/' -> character;
                case 'b' -> '\b';
                case 'f' -> '\f';
                case 'n' -> '\n';
                case 'r' -> '\r';
                case 't' -> '\t';
                case 'u' -> (char) (digit() << 12 | digit() << 8 | digit() << 4 | digit());
                default -> throw new InvalidRequestException("an unknown escape");
            };
        }

        /** HexFormat, because Character.digit takes the digits of other scripts as well. */
        private int digit() {
            var character = next();
            if (!HexFormat.isHexDigit(character)) {
                throw new InvalidRequestException("an escape without four digits");
            }
            return HexFormat.fromHexDigit(character);
        }

        private char next() {
            if (at == text.length()) {
                throw new InvalidRequestException("the body ends too early");
            }
            return text.charAt(at++);
        }

        private void skipSpace() {
            while (at < text.length() && " \t\n\r".indexOf(text.charAt(at)) >= 0) {
                at++;
            }
        }

        private boolean skip(String token) {
            skipSpace();
            var isThere = text.startsWith(token, at);
            at += isThere ? token.length() : 0;
            return isThere;
        }

        private void expect(String token) {
            if (!skip(token)) {
                throw new InvalidRequestException("the body is not JSON");
            }
        }
    }

    // --- Reading (decision 0010) -------------------------------------------------------------------------------------

    /** A body that was read. A rollback's cents are not read: it refunds what was taken. */
    private record Call(
            String operation,
            String playerId,
            String betId,
            String txId,
            String action,
            long cents,
            Object instanceId,
            String digest) {

        /** A claim neither reads nor changes a bet, even one that it names (decision 0014). */
        boolean isClaim() {
            return operation.equals("deposit") && !action.equals("BET");
        }

        Call withTxId(String txId) {
            return new Call(operation, playerId, betId, txId, action, cents, instanceId, digest);
        }
    }

    private static Call readCall(String operation, byte[] body) {
        if (!(new JsonReader(body).document() instanceof Map<?, ?> document)) {
            throw new InvalidRequestException("not an object");
        }
        var playerId = readId(document.get("player_id"), MAX_ID);
        if (operation.equals("player-balance")) {
            return new Call(operation, playerId, null, null, "BET", 0, null, "");
        }
        checkShape(operation, document);
        var call = new Call(
                operation,
                playerId,
                optionalId(document, MAX_ID, "action_id", "bet_id", "reference_id"),
                optionalId(document, MAX_TX_ID, "tx_id", "transaction_id"),
                readAction(operation, document),
                operation.equals("rollback") ? 0 : readAmount(operation, document),
                document.get("instance_id"),
                digestOf(body));
        if (call.betId() == null && (call.txId() == null || !call.isClaim())) {
            throw new InvalidRequestException("the bet is missing");
        }
        return call;
    }

    /** A body must have the form of its path's calls, because the signature does not cover the path. */
    private static void checkShape(String operation, Map<?, ?> document) {
        var isDeposit = operation.equals("deposit");
        var action = document.get("action");
        var fits = document.containsKey("action")
                ? isDeposit ? action instanceof Map : action instanceof String
                : document.containsKey("won") == isDeposit;
        if (!fits) {
            throw new InvalidRequestException("this is not a " + operation);
        }
    }

    private static String readAction(String operation, Map<?, ?> document) {
        if (!document.containsKey("action")) {
            return "BET";
        }
        var action = document.get("action") instanceof Map<?, ?> inner ? inner.get("type") : document.get("action");
        var known = operation.equals("deposit") ? List.of("BET", "FREE_BET_CLAIM", "JACKPOT") : List.of("BET", "RAIN");
        if (action instanceof String name && known.contains(name)) {
            return name;
        }
        throw new InvalidRequestException("an unknown action");
    }

    private static final Pattern WHOLE_CENTS = Pattern.compile("(-?0|[1-9][0-9]{0,15})(?:\\.0+)?");

    /** Read whole cents: 500 and 500.0, but not "500", 5.5, 5e2, true or -1. */
    private static long readAmount(String operation, Map<?, ?> document) {
        var ofDeposit = new String[] {"amount", "won", "action.won"};
        var names = operation.equals("withdraw") ? new String[] {"amount", "wager"} : ofDeposit;
        var digits = WHOLE_CENTS.matcher(first(document, names) instanceof JsonNumber number ? number.text() : "");
        if (!digits.matches() || Long.parseLong(digits.group(1)) > MAX_CENTS) {
            throw new InvalidRequestException("not an amount in cents");
        }
        var cents = Long.parseLong(digits.group(1));
        if (operation.equals("withdraw") && cents == 0) {
            throw new InvalidRequestException("a withdraw of nothing");
        }
        return cents;
    }

    /** Return the id unchanged: trimmed, folded or normalised it could be another player's. */
    private static String readId(Object value, int longest) {
        if (!(value instanceof String id)) {
            throw new InvalidRequestException("an id is a string");
        }
        // length() counts UTF-16 units. Half a surrogate pair is a code point in a String, and nowhere else.
        var isKept = id.codePoints().noneMatch(each -> each == 0 || each >= 0xD800 && each <= 0xDFFF);
        if (id.isBlank() || id.codePointCount(0, id.length()) > longest || !isKept) {
            throw new InvalidRequestException("an id is blank, too long, or not storable");
        }
        return id;
    }

    private static String optionalId(Map<?, ?> document, int longest, String... names) {
        var value = first(document, names);
        return value == MISSING ? null : readId(value, longest);
    }

    private static final Object MISSING = new Object();

    /** Return the value of the first of the names that is present, null included; MISSING if all are missing. */
    private static Object first(Map<?, ?> document, String... names) {
        for (var name : names) {
            var dot = name.indexOf('.');
            var place = dot < 0 ? document : document.get(name.substring(0, dot));
            var inner = name.substring(dot + 1);
            if (place instanceof Map<?, ?> members && members.containsKey(inner)) {
                return members.get(inner);
            }
        }
        return MISSING;
    }

    private static String digestOf(byte[] body) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(body));
        } catch (GeneralSecurityException impossible) {
            throw new IllegalStateException(impossible); // Every Java has SHA-256.
        }
    }

    // --- The signature (decision 0011) -------------------------------------------------------------------------------

    /** RSA-SHA256 (PKCS#1 v1.5) over the bytes as they arrived: after parsing and writing they would be other bytes. */
    private boolean isAuthentic(List<String> signatures, byte[] body) throws GeneralSecurityException {
        if (signatures == null || signatures.size() != 1) { // Twice: another reader would take the other one.
            return false;
        }
        try {
            var signature = decodeSignature(signatures.get(0));
            for (var key : publicKeys) {
                if (verifies(key, signature, body)) {
                    return true;
                }
            }
        } catch (IllegalArgumentException notBase64) {
            return false;
        }
        return false;
    }

    /** Read Base64 of either alphabet, padded or not. */
    private static byte[] decodeSignature(String header) {
        return Base64.getDecoder().decode(header.strip().replaceAll("=+$", "").replace('-', '+').replace('_', '/'));
    }

    private static boolean verifies(PublicKey key, byte[] signature, byte[] body) throws GeneralSecurityException {
        var verifier = Signature.getInstance("SHA256withRSA"); // Not shared: it keeps the bytes of one call.
        verifier.initVerify(key);
        verifier.update(body);
        try {
            return verifier.verify(signature);
        } catch (SignatureException ofAnotherLength) {
            return false;
        }
    }

    /** Read the public keys of a PEM file: one, or during a rotation both. */
    private static List<PublicKey> readPublicKeys(Path file) throws GeneralSecurityException {
        var block = Pattern.compile("-----BEGIN PUBLIC KEY-----([^-]+)-----END PUBLIC KEY-----");
        var advice = "Pass the public half of the key that the service signs with.";
        var keys = new ArrayList<PublicKey>();
        try {
            for (var found = block.matcher(Files.readString(file)); found.find(); ) {
                var encoded = Base64.getMimeDecoder().decode(found.group(1));
                keys.add(KeyFactory.getInstance("RSA").generatePublic(new X509EncodedKeySpec(encoded)));
            }
        } catch (IOException failure) {
            var reason = failure.getClass().getSimpleName(); // Its message is the file's name alone.
            throw new IllegalArgumentException(file + " cannot be read (" + reason + "). " + advice);
        } catch (InvalidKeySpecException | IllegalArgumentException ofSomethingElse) {
            keys.clear();
        }
        if (keys.isEmpty()) {
            throw new IllegalArgumentException(file + " does not hold an RSA public key. " + advice);
        }
        return keys;
    }

    // --- The wallet --------------------------------------------------------------------------------------------------

    /** A player's money, and the last time that was returned with it. */
    private record Account(String playerId, long cents, long lastMillis, boolean isBlocked) {}

    /** OPEN, SPENT (no deposit settles it), CLOSED, ROLLED_BACK, TOMBSTONE, or DECLINED with the code of the reply. */
    private record Bet(
            String betId, String playerId, String txId, long cents, String state, String code, String digest) {}

    /** The call that used (operation, tx_id), or the bet for which a tombstone holds it. */
    private record Known(String content, String heldFor) {}

    /** A call with all stored data about it, read in one transaction. What is not there is null. */
    private record Facts(Call call, long now, Account account, Bet bet, Known known) {
        /** A call with this identity has a final answer, and check 2 has found the same content. */
        boolean isRepeat() {
            return known != null && known.heldFor() == null;
        }
    }

    /** The answer (spec §2.1); without an account it has no cents and no time. */
    private record Reply(String outcome, Long cents, Long atMillis) {
        Reply(String outcome) {
            this(outcome, null, null);
        }
    }

    private final List<PublicKey> publicKeys;
    private final Set<String> instances; // null: any.
    private final Connection database;
    private final ReentrantLock lock = new ReentrantLock(true);

    private Wallet(List<PublicKey> publicKeys, String database, Set<String> instances) throws SQLException {
        this.publicKeys = publicKeys;
        this.instances = instances;
        this.database = DriverManager.getConnection("jdbc:sqlite:" + database);
        run("PRAGMA busy_timeout = 30000");
        run("PRAGMA journal_mode = WAL");
        run("PRAGMA synchronous = FULL");
        for (var table : SCHEMA) {
            run(table);
        }
    }

    /** Open an account, unless the database file has it already. */
    private void openAccount(String playerId, long cents) throws SQLException {
        run("INSERT OR IGNORE INTO accounts VALUES (?, ?, 0, 0)", playerId, cents);
    }

    /** Return the reply. Never throws: a failure is SYSTEM_ERROR, rolled back, and says nothing about it. */
    private Reply answer(String operation, List<String> signatures, byte[] body) {
        try {
            if (body.length > MAX_BODY) {
                return new Reply("SYSTEM_ERROR"); // Nobody has read what it says, so nothing final may be said of it.
            }
            if (!isAuthentic(signatures, body)) {
                return new Reply("INVALID_SIGNATURE");
            }
            var call = readCall(operation, body);
            if (isForeign(call)) {
                throw new InvalidRequestException("another operator's instance");
            }
            return inTransaction(() -> carryOut(call));
        } catch (InvalidRequestException invalid) {
            return new Reply("INVALID_REQUEST");
        } catch (Exception failure) {
            return new Reply("SYSTEM_ERROR");
        }
    }

    /** A service may sign for all its operators with one key, so withdraws and claims must name an instance. */
    private boolean isForeign(Call call) {
        if (instances == null || !(call.operation().equals("withdraw") || call.isClaim())) {
            return false;
        }
        return !(call.instanceId() instanceof String id && instances.contains(id));
    }

    // --- The order of checks (decision 0014) -------------------------------------------------------------------------

    /** Returns an outcome, or null if another check has it. */
    private interface Check {
        String ask(Facts facts) throws SQLException;
    }

    /** Return the reply of the first check that has one. */
    private Reply carryOut(Call call) throws SQLException {
        var facts = facts(call);
        for (Check check : List.<Check>of(this::askBody, this::askIdentity, this::askPlayer, this::askTable)) {
            var outcome = check.ask(facts);
            if (outcome != null) {
                return reply(facts, outcome);
            }
        }
        throw new IllegalStateException("no check has an answer");
    }

    private Facts facts(Call call) throws SQLException {
        var bet = call.isClaim() || call.betId() == null ? null : findBet(call.betId());
        if (call.betId() != null && call.txId() == null) {
            call = call.withTxId(derivedTxId(call, bet));
        }
        var known = findCall(call.operation(), call.txId());
        return new Facts(call, System.currentTimeMillis(), findAccount(call.playerId()), bet, known);
    }

    /** Check 1: is it its withdraw's own body? The signature does not cover the path (decision 0011). */
    private String askBody(Facts facts) {
        var call = facts.call();
        var isOfBet = call.operation().equals("rollback") && facts.bet() != null;
        return isOfBet && call.digest().equals(facts.bet().digest()) ? "INVALID_REQUEST" : null;
    }

    /** Check 2: is the identity known with other content, or held by another bet's tombstone? */
    private String askIdentity(Facts facts) {
        return facts.known() == null || isSame(facts.call(), facts.known()) ? null : "DUPLICATE_TRANSACTION";
    }

    /** Check 3: is the player unknown? For an unseen bet the answer is final, even if the account is opened. */
    private String askPlayer(Facts facts) throws SQLException {
        if (facts.account() != null) {
            return null;
        }
        if (facts.bet() == null && facts.call().operation().equals("withdraw")) {
            decline(facts.call(), "PLAYER_NOT_FOUND");
        }
        if (facts.bet() == null && facts.call().operation().equals("rollback")) {
            entomb(facts.call());
        }
        return "PLAYER_NOT_FOUND";
    }

    /** Check 4: what is the state of the bet? */
    private String askTable(Facts facts) throws SQLException {
        return switch (facts.call().operation()) {
            case "withdraw" -> withdraw(facts);
            case "deposit" -> facts.call().isClaim() ? claim(facts) : deposit(facts);
            case "rollback" -> rollback(facts);
            default -> SUCCESS; // player-balance
        };
    }

    private String withdraw(Facts facts) throws SQLException {
        var bet = facts.bet();
        if (bet == null) {
            return place(facts);
        }
        if (bet.state().equals("ROLLED_BACK") || bet.state().equals("TOMBSTONE")) {
            return "BET_ROLLED_BACK";
        }
        if (!facts.isRepeat()) {
            return "DUPLICATE_TRANSACTION";
        }
        return bet.code() == null ? SUCCESS : bet.code();
    }

    private String place(Facts facts) throws SQLException {
        var code = refusal(facts);
        if (code != null) {
            decline(facts.call(), code);
            return code;
        }
        debit(facts);
        return SUCCESS;
    }

    private void debit(Facts facts) throws SQLException {
        move(facts, facts.call().playerId(), -facts.call().cents());
        remember(facts.call());
        keepBet(facts.call(), facts.call().action().equals("RAIN") ? "SPENT" : "OPEN");
    }

    private String deposit(Facts facts) throws SQLException {
        var bet = facts.bet();
        if (bet == null || bet.state().equals("DECLINED")) {
            return "BET_NOT_FOUND";
        }
        if (facts.isRepeat()) {
            return SUCCESS;
        }
        var isBound = Set.of("OPEN", "CLOSED", "ROLLED_BACK").contains(bet.state());
        if (isBound && !facts.call().playerId().equals(bet.playerId())) {
            return "BET_NOT_FOUND";
        }
        if (!bet.state().equals("OPEN")) {
            return NOT_OPEN.get(bet.state());
        }
        settle(facts);
        return SUCCESS;
    }

    /** Credit the winnings. An amount of 0 is a loss, which settles the bet too. */
    private void settle(Facts facts) throws SQLException {
        move(facts, facts.bet().playerId(), facts.call().cents());
        remember(facts.call());
        setState(facts.bet(), "CLOSED");
    }

    /** A free bet's or jackpot's winnings: paid once for each tx_id, in any state of any bet. */
    private String claim(Facts facts) throws SQLException {
        if (!facts.isRepeat()) {
            move(facts, facts.call().playerId(), facts.call().cents());
            remember(facts.call());
        }
        return SUCCESS;
    }

    private String rollback(Facts facts) throws SQLException {
        var bet = facts.bet();
        if (bet == null) {
            entomb(facts.call());
            return "BET_NOT_FOUND";
        }
        if (Set.of("TOMBSTONE", "DECLINED").contains(bet.state()) || !agrees(facts.call(), bet)) {
            return "BET_NOT_FOUND";
        }
        if (bet.state().equals("CLOSED")) {
            return "BET_ALREADY_CLOSED";
        }
        if (!bet.state().equals("ROLLED_BACK")) {
            refund(facts);
        }
        return SUCCESS;
    }

    /** Give back the amount that was taken, not the amount in the rollback. */
    private void refund(Facts facts) throws SQLException {
        move(facts, facts.bet().playerId(), facts.bet().cents());
        remember(facts.call());
        setState(facts.bet(), "ROLLED_BACK");
    }

    // --- The books ---------------------------------------------------------------------------------------------------

    private interface Transaction {
        Reply run() throws SQLException;
    }

    /**
     * One writer at a time: the lock among these threads, BEGIN IMMEDIATE among processes on the same file. Not by
     * setAutoCommit(false): after each commit sqlite-jdbc begins the next transaction, and keeps the file locked.
     */
    private Reply inTransaction(Transaction transaction) throws SQLException {
        lock.lock();
        try {
            run("BEGIN IMMEDIATE");
            try {
                var reply = transaction.run();
                run("COMMIT");
                return reply;
            } catch (Throwable failure) {
                run("ROLLBACK");
                throw failure;
            }
        } finally {
            lock.unlock();
        }
    }

    private PreparedStatement prepare(String sql, Object... values) throws SQLException {
        var statement = database.prepareStatement(sql);
        for (int index = 0; index < values.length; index++) {
            statement.setObject(index + 1, values[index]);
        }
        return statement;
    }

    private void run(String sql, Object... values) throws SQLException {
        try (var statement = prepare(sql, values)) {
            statement.execute();
        }
    }

    private interface RowReader<T> {
        T read(ResultSet row) throws SQLException;
    }

    private <T> T find(String sql, RowReader<T> reader, Object... values) throws SQLException {
        try (var statement = prepare(sql, values); var rows = statement.executeQuery()) {
            return rows.next() ? reader.read(rows) : null;
        }
    }

    private Account findAccount(String playerId) throws SQLException {
        var sql = "SELECT player_id, cents, last_millis, blocked FROM accounts WHERE player_id = ?";
        RowReader<Account> reader =
                row -> new Account(row.getString(1), row.getLong(2), row.getLong(3), row.getInt(4) != 0);
        return find(sql, reader, playerId);
    }

    private Bet findBet(String betId) throws SQLException {
        var sql = "SELECT bet_id, player_id, tx_id, cents, state, code, digest FROM bets WHERE bet_id = ?";
        RowReader<Bet> reader = row -> new Bet(
                row.getString(1), row.getString(2), row.getString(3), row.getLong(4),
                row.getString(5), row.getString(6), row.getString(7));
        return find(sql, reader, betId);
    }

    /** Never by the tx_id alone, because a rollback has its withdraw's. */
    private Known findCall(String operation, String txId) throws SQLException {
        var sql = "SELECT content, held_for FROM calls WHERE operation = ? AND tx_id = ?";
        return find(sql, row -> new Known(row.getString(1), row.getString(2)), operation, txId);
    }

    /** Move money, at a time after all returned ones. Beyond 64 bits `+` goes on at the other end; addExact throws. */
    private void move(Facts facts, String playerId, long cents) throws SQLException {
        var account = findAccount(playerId);
        var left = Math.addExact(account.cents(), cents);
        var atMillis = Math.max(facts.now(), account.lastMillis() + 1);
        run("UPDATE accounts SET cents = ?, last_millis = ? WHERE player_id = ?", left, atMillis, playerId);
        var call = facts.call();
        run("INSERT INTO postings VALUES (?, ?, ?, ?, ?)", call.operation(), call.txId(), playerId, cents, atMillis);
    }

    private void remember(Call call) throws SQLException {
        run("INSERT INTO calls VALUES (?, ?, ?, NULL)", call.operation(), call.txId(), contentOf(call));
    }

    /** Store a debited bet, with its body's digest: on /rollback that body would be a refund. */
    private void keepBet(Call call, String state) throws SQLException {
        var sql = "INSERT INTO bets VALUES (?, ?, ?, ?, ?, NULL, ?)";
        run(sql, call.betId(), call.playerId(), call.txId(), call.cents(), state, call.digest());
    }

    /** Make a refusal final: the same withdraw gets the same answer, with any later balance. */
    private void decline(Call call, String code) throws SQLException {
        remember(call);
        var sql = "INSERT INTO bets VALUES (?, ?, ?, ?, 'DECLINED', ?, NULL)";
        run(sql, call.betId(), call.playerId(), call.txId(), call.cents(), code);
    }

    /** Stop a late withdraw: hold the bet and its withdraw's tx_id, unless another bet has that tx_id. */
    private void entomb(Call call) throws SQLException {
        if (findCall("withdraw", call.txId()) != null) {
            return;
        }
        remember(call);
        run("INSERT INTO calls VALUES ('withdraw', ?, '', ?)", call.txId(), call.betId());
        var sql = "INSERT INTO bets VALUES (?, ?, ?, 0, 'TOMBSTONE', NULL, NULL)";
        run(sql, call.betId(), call.playerId(), call.txId());
    }

    private void setState(Bet bet, String state) throws SQLException {
        run("UPDATE bets SET state = ? WHERE bet_id = ?", state, bet.betId());
    }

    // --- The reply (decision 0012) -----------------------------------------------------------------------------------

    /** Today's balance of the player that the call names, for a repeat as well, still in the transaction. */
    private Reply reply(Facts facts, String outcome) throws SQLException {
        var account = findAccount(facts.call().playerId());
        if (account == null || outcome.equals("PLAYER_NOT_FOUND")) {
            return new Reply(outcome);
        }
        // Never earlier than the balance in the same reply.
        return new Reply(outcome, account.cents(), Math.max(facts.now(), account.lastMillis()));
    }

    /** Make the tx_id of a body without one. A rollback gets its withdraw's. */
    private static String derivedTxId(Call call, Bet bet) {
        if (call.operation().equals("rollback") && bet != null) {
            return bet.txId();
        }
        var operation = call.operation().equals("rollback") ? "withdraw" : call.operation();
        return operation + ":" + call.action().toLowerCase(Locale.ROOT) + ":" + call.betId();
    }

    /** By equals: == compares references, and equalsIgnoreCase makes two ids one. */
    private static boolean isSame(Call call, Known known) {
        return known.heldFor() == null
                ? known.content().equals(contentOf(call))
                : known.heldFor().equals(call.betId());
    }

    /** The values that must agree. Bytes, order of keys, round, game and unknown fields may differ. */
    private static String contentOf(Call call) {
        if (call.operation().equals("rollback")) {
            return quoted(call.playerId()) + quoted(call.betId());
        }
        var bet = call.isClaim() ? "null" : quoted(call.betId());
        return quoted(call.playerId()) + bet + call.action() + call.cents();
    }

    /** Quotes around each id: two ids that follow each other must not look like two others. */
    private static String quoted(String id) {
        return '"' + id.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }

    /** Check 5, only for a withdraw that is about to debit. */
    private static String refusal(Facts facts) {
        if (facts.account().isBlocked()) {
            return "PLAYER_BLOCKED";
        }
        return facts.account().cents() >= facts.call().cents() ? null : "INSUFFICIENT_BALANCE";
    }

    /** Whether a rollback names the bet's player and its withdraw. */
    private static boolean agrees(Call call, Bet bet) {
        return call.playerId().equals(bet.playerId()) && call.txId().equals(bet.txId());
    }

    private static String render(Reply reply) {
        var members = reply.outcome().equals(SUCCESS)
                ? "\"type\":\"SUCCESS\""
                : "\"type\":\"ERROR\",\"code\":\"" + reply.outcome() + '"';
        if (reply.cents() != null) {
            members += ",\"balance\":" + renderBalance(reply.cents()) + ",\"timestamp\":" + reply.atMillis();
        }
        return '{' + members + '}';
    }

    /** Two decimals, digit for digit (decision 0012): `cents / 100.0` would be a double. ROOT: no decimal comma. */
    private static String renderBalance(long cents) {
        var size = Math.abs(cents);
        return String.format(Locale.ROOT, "%s%d.%02d", cents < 0 ? "-" : "", size / 100, size % 100);
    }

    // --- HTTP --------------------------------------------------------------------------------------------------------

    /** Answer every call with HTTP 200, refusals too (spec §4.1). Only what is not a call gets another status. */
    private void respond(HttpExchange exchange) throws IOException {
        try (exchange) {
            var body = readBody(exchange);
            var operation = OPERATIONS.get(exchange.getRequestURI().toString());
            if (operation == null) {
                send(exchange, 404, new Reply("INVALID_REQUEST"));
            } else if (!exchange.getRequestMethod().equals("POST")) {
                exchange.getResponseHeaders().set("Allow", "POST");
                send(exchange, 405, new Reply("INVALID_REQUEST"));
            } else {
                // getFirst would return one of two signatures; get returns both.
                send(exchange, 200, answer(operation, exchange.getRequestHeaders().get("Signature"), body));
            }
        }
    }

    /** The raw bytes. Beyond the limit they are read and dropped, so that the caller gets to the reply. */
    private static byte[] readBody(HttpExchange exchange) throws IOException {
        var stream = exchange.getRequestBody();
        var body = stream.readNBytes(MAX_BODY + 1);
        var dropped = new byte[8_192];
        for (long size = 0, read; (read = stream.read(dropped)) >= 0; size += read) {
            if (size > MAX_DISCARDED) {
                throw new IOException("the body does not end");
            }
        }
        return body;
    }

    private static void send(HttpExchange exchange, int status, Reply reply) throws IOException {
        var text = render(reply).getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("Content-Type", "application/json");
        if (exchange.getRequestMethod().equals("HEAD")) {
            exchange.sendResponseHeaders(status, -1);
        } else {
            exchange.sendResponseHeaders(status, text.length);
            exchange.getResponseBody().write(text);
        }
    }

    /** Serve the wallet on this machine, with a thread for each call under way. */
    private static HttpServer serve(Wallet wallet, String port) throws IOException {
        if (!port.matches("[0-9]{1,5}") || Integer.parseInt(port) > 65_535) {
            throw new IllegalArgumentException("Port " + port + " is invalid. Use a number from 0 to 65535.");
        }
        System.setProperty("sun.net.httpserver.nodelay", "true"); // Else a body waits 40 ms for an acknowledgement.
        System.setProperty("sun.net.httpserver.maxReqTime", "30"); // Seconds: a silent caller is cut off.
        System.setProperty("sun.net.httpserver.idleInterval", "75"); // Seconds: callers use their connections again.
        var address = new InetSocketAddress(InetAddress.getLoopbackAddress(), Integer.parseInt(port));
        var server = HttpServer.create();
        try {
            server.bind(address, 128); // The backlog: fifty calls may come at once.
        } catch (BindException failure) {
            var reason = failure.getMessage();
            throw new BindException("Port " + port + " cannot be used (" + reason + "). Pass a port that is free.");
        }
        server.setExecutor(Executors.newCachedThreadPool());
        server.createContext("/", wallet::respond);
        server.start();
        return server;
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length < 2) {
            System.err.println("Usage: java -cp sqlite-jdbc.jar Wallet.java service.pub.pem PORT PLAYER...");
            System.exit(2);
        }
        try {
            start(arguments);
        } catch (IllegalArgumentException | BindException | SQLException failure) {
            System.err.println(failure.getMessage()); // One line that says what to do, in place of a stack trace.
            System.exit(1);
        }
    }

    private static void start(String[] arguments) throws Exception {
        var database = System.getenv().getOrDefault("DATABASE", ":memory:");
        var names = System.getenv().getOrDefault("INSTANCES", "");
        var instances = names.isEmpty() ? null : Set.of(names.split(","));
        var wallet = new Wallet(readPublicKeys(Path.of(arguments[0])), database, instances);
        for (var playerId : Arrays.asList(arguments).subList(2, arguments.length)) {
            wallet.openAccount(playerId, 10_000);
        }
        var server = serve(wallet, arguments[1]);
        System.out.println("http://127.0.0.1:" + server.getAddress().getPort() + " until Ctrl-C");
    }
}
