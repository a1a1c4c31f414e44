-- The questions of a doctor.

-- name: tables_in_sqlite
SELECT name FROM sqlite_master WHERE type = 'table'

-- name: in_the_future
SELECT account, at_millis FROM (
    SELECT account, at_millis FROM {prefix}accounts UNION ALL SELECT account, at_millis FROM {prefix}clocks
) AS known WHERE at_millis > ? ORDER BY at_millis DESC, account LIMIT ?

-- name: damaged_slices
SELECT COUNT(*), MIN(day) FROM {prefix}slices WHERE findings > 0

-- name: damaged_anomalies
SELECT COUNT(*) FROM {prefix}anomalies WHERE resolved_at_millis IS NULL AND kind = 'damaged_books'

-- name: waiting_anomalies
SELECT COUNT(*), COUNT(CASE WHEN first_at_millis >= ? THEN 1 END), COUNT(CASE WHEN first_at_millis >= ? THEN 1 END)
FROM {prefix}anomalies WHERE resolved_at_millis IS NULL

-- name: waiting_findings
SELECT COUNT(*), COUNT(CASE WHEN first_at_millis >= ? THEN 1 END), COUNT(CASE WHEN first_at_millis >= ? THEN 1 END)
FROM {prefix}findings WHERE resolved_at_millis IS NULL

-- name: old_bets
SELECT COUNT(*), MIN(opened_at_millis) FROM (
    SELECT opened_at_millis FROM {prefix}bets WHERE state = 'OPEN' AND opened_at_millis < ?
    ORDER BY opened_at_millis LIMIT ?
) AS old

-- Triggers that are missing, or off.
-- name: guards_in_sqlite
SELECT '{prefix}postings_' || column1 AS guard FROM (VALUES ('stay'), ('remain')) WHERE guard NOT IN (
    SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = '{prefix}postings'
)

-- What follows is for PostgreSQL.
-- name: schema
(SELECT relnamespace FROM pg_class WHERE oid = to_regclass('{prefix}calls'))

-- name: tables_in_postgres
SELECT CAST(relname AS text) FROM pg_class WHERE relkind IN ('r', 'p') AND pg_table_is_visible(oid)

-- A partition has triggers, too. PostgreSQL drops that of rows when a day is folded, because it is detached.
-- name: guards_in_postgres
SELECT '{prefix}postings_' || guard || CASE WHEN held.oid <> postings.oid THEN ' on ' || quote_ident(held.relname) ELSE '' END
FROM (VALUES (1, 'stay'), (2, 'remain')) AS guards (place, guard)
CROSS JOIN (SELECT CAST(to_regclass('{prefix}postings') AS oid) AS oid) AS postings
LEFT JOIN pg_class AS held ON held.oid = postings.oid
    OR held.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = postings.oid)
    OR guard = 'remain' AND held.relkind = 'r' AND starts_with(CAST(held.relname AS text), '{prefix}postings_2')
        AND length(held.relname) = length('{prefix}postings_') + 8 AND right(held.relname, 8) ~ '^[0-9]*$'
        AND held.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = postings.oid)
WHERE NOT EXISTS (
    SELECT FROM pg_trigger
    WHERE tgrelid = held.oid AND tgname = '{prefix}postings_' || guard AND tgenabled IN ('O', 'A')
) ORDER BY held.oid <> postings.oid, held.relname, place

-- name: settings
SELECT name, setting FROM pg_settings WHERE name IN (
    'data_directory', 'default_transaction_isolation', 'default_transaction_read_only', 'fsync', 'full_page_writes',
    'server_encoding', 'synchronous_commit', 'synchronous_standby_names'
) UNION ALL SELECT 'user', quote_ident(current_user)

-- name: place
SELECT pg_is_in_recovery(), quote_ident(current_user),
    CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS bigint)

-- name: commit_settings
SELECT CASE WHEN place.setrole = 0 THEN 'all roles' ELSE 'the role ' || quote_ident(pg_get_userbyid(place.setrole)) END
    || CASE WHEN place.setdatabase = 0 THEN '' ELSE ' in this database' END, split_part(setting, '=', 2)
FROM pg_db_role_setting AS place CROSS JOIN unnest(place.setconfig) AS setting
WHERE lower(setting) IN ('synchronous_commit=off', 'synchronous_commit=false', 'synchronous_commit=no',
        'synchronous_commit=0', 'synchronous_commit=local')
    AND place.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
ORDER BY 1

-- name: standbys
SELECT count(*), count(*) FILTER (WHERE sync_state IN ('sync', 'quorum') AND state = 'streaming'),
    count(*) FILTER (WHERE sync_state IS NULL)
FROM pg_stat_replication

-- name: timeline
SELECT CAST(system_identifier AS text), CASE WHEN NOT pg_is_in_recovery()
    THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END FROM pg_control_system()

-- A server on a Unix socket or on loopback is likely to be on this machine.
-- name: size
SELECT pg_database_size(current_database()),
    inet_server_addr() IS NULL OR inet_server_addr() <<= inet '127.0.0.0/8' OR inet_server_addr() = inet '::1'

-- name: money
money (name, id) AS (
    SELECT name, CAST(to_regclass('{prefix}' || name) AS oid) FROM unnest(ARRAY['accounts', 'bets', 'calls', 'postings']) AS name
)

-- name: public_rights
WITH {money}
SELECT '{prefix}' || money.name, string_agg(acl.privilege_type, ', ' ORDER BY acl.privilege_type),
    bool_or(acl.privilege_type IN ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE'))
FROM money JOIN pg_class AS class ON class.oid = money.id CROSS JOIN aclexplode(class.relacl) AS acl
WHERE acl.grantee = 0 GROUP BY money.name ORDER BY 1

-- Roles that may log in, with what they may do by any way: grants, roles that they are members of, and predefined ones.
-- A wallet inserts and updates; maintain deletes postings, too.
-- name: roles
WITH {money}
SELECT quote_ident(role.rolname),
    string_agg(kind || ' ' || money.name, ', ' ORDER BY kind, money.name)
        FILTER (WHERE kind = 'TRUNCATE' OR (kind = 'DELETE' AND money.name <> 'postings')),
    string_agg(kind || ' ' || money.name, ', ' ORDER BY kind, money.name),
    bool_or(has_table_privilege(role.oid, to_regclass('{prefix}calls'), 'INSERT'))
FROM pg_roles AS role CROSS JOIN money CROSS JOIN unnest(ARRAY['UPDATE', 'DELETE', 'TRUNCATE']) AS kind
JOIN pg_class AS calls ON calls.oid = to_regclass('{prefix}calls')
WHERE role.rolcanlogin AND NOT role.rolsuper AND role.rolname <> current_user
    AND NOT pg_has_role(role.oid, calls.relowner, 'USAGE') AND has_table_privilege(role.oid, money.id, kind)
GROUP BY role.rolname ORDER BY 1

-- name: own_rights
SELECT quote_ident(current_user), (SELECT rolsuper FROM pg_roles WHERE rolname = current_user),
    pg_has_role(calls.relowner, 'USAGE'), quote_ident(space.nspname), EXISTS (
        SELECT FROM aclexplode(coalesce(space.nspacl, acldefault('n', space.nspowner))) AS acl
        WHERE acl.grantee = 0 AND acl.privilege_type = 'CREATE'
    )
FROM pg_class AS calls JOIN pg_namespace AS space ON space.oid = calls.relnamespace
WHERE calls.oid = to_regclass('{prefix}calls')

-- name: connections
SELECT (SELECT CAST(sum(numbackends) AS bigint) FROM pg_stat_database),
    CAST(current_setting('max_connections') AS bigint) - CAST(current_setting('superuser_reserved_connections') AS bigint)

-- name: invalid_indexes
SELECT CAST(CAST(index.indexrelid AS regclass) AS text) FROM pg_index AS index JOIN pg_class AS class ON class.oid = index.indrelid
WHERE starts_with(CAST(class.relname AS text), '{prefix}') AND class.relnamespace = {schema}
    AND index.indisunique AND NOT (index.indisvalid AND index.indisready) ORDER BY 1

-- Locks of our tables. A prepared transaction has no process.
-- name: our_locks
SELECT pid, virtualtransaction FROM pg_locks JOIN pg_class AS class ON class.oid = pg_locks.relation
WHERE pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND starts_with(CAST(class.relname AS text), '{prefix}') AND class.relnamespace = {schema}

-- name: prepared
SELECT quote_literal(gid), CAST(extract(epoch FROM clock_timestamp() - prepared) / 60 AS bigint) FROM pg_prepared_xacts
WHERE database = current_database() AND prepared < clock_timestamp() - make_interval(mins => ?) AND EXISTS (
    SELECT FROM pg_locks AS own JOIN ({our_locks}) AS ours ON ours.virtualtransaction = own.virtualtransaction
    WHERE own.transactionid = pg_prepared_xacts.transaction AND own.pid IS NULL AND ours.pid IS NULL
) ORDER BY prepared

-- name: idle_transactions
SELECT CAST(extract(epoch FROM clock_timestamp() - xact_start) / 60 AS bigint), quote_ident(usename), pid
FROM pg_stat_activity
WHERE starts_with(state, 'idle in transaction') AND state_change < clock_timestamp() - make_interval(mins => ?)
    AND pid IN (SELECT pid FROM ({our_locks}) AS ours) ORDER BY xact_start

-- Of others' sessions a user without the right sees no more than that they are there.
-- name: hidden_sessions
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state IS NULL AND backend_type IS NULL

-- name: default_partition
SELECT CAST(CAST(partdefid AS regclass) AS text) FROM pg_partitioned_table
WHERE partrelid = to_regclass('{prefix}postings') AND partdefid <> 0
