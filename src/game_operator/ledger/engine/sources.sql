-- The statements about sources.

-- name: names
SELECT name FROM {prefix}sources ORDER BY at_millis, name

-- name: none_is_first
NOT EXISTS (SELECT 1 FROM {prefix}sources WHERE is_first)

-- name: add
INSERT INTO {prefix}sources (name, origin, at_millis, is_first)
SELECT CAST(? AS text), 'added', CAST(? AS bigint), {none_is_first} ON CONFLICT DO NOTHING

-- name: found
SELECT source FROM {prefix}calls WHERE operation NOT IN ('open', 'adjust')
UNION SELECT source FROM {prefix}bets ORDER BY source

-- To PostgreSQL: the claims that a transaction has made with pg_try_advisory_xact_lock_shared.
-- name: unsigned_hash
(CAST(hashtext(?) AS bigint) & 4294967295)

-- name: claims
SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND CAST(classid AS bigint) = {unsigned_hash}
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())

-- name: own_claim
{claims} AND CAST(objid AS bigint) = {unsigned_hash} AND pid = pg_backend_pid()

-- name: other_claim
{claims} AND CAST(objid AS bigint) <> {unsigned_hash} LIMIT 1
