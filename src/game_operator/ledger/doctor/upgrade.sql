-- The questions of the examination before an upgrade.

-- name: taken_twice
SELECT bet_id FROM {prefix}bets WHERE state NOT IN ('TOMBSTONE', 'DECLINED')
GROUP BY bet_id, player_id HAVING COUNT(*) > 1 ORDER BY bet_id LIMIT 1

-- Balances with decimals.
-- name: decimals_in_sqlite
SELECT CAST({balance} AS text) FROM {table} AS owned
WHERE (typeof({balance}) = 'real' AND {balance} <> round({balance}))
    OR (typeof({balance}) = 'text' AND instr({balance}, '.') > 0) LIMIT 1

-- name: decimals_in_postgres
SELECT CAST({balance} AS text) FROM {table} AS owned WHERE scale(CAST({balance} AS numeric)) > 0 LIMIT 1

-- What follows is for PostgreSQL.
-- The last day whose postings are taken, if a migration was begun.
-- name: begun
SELECT CAST(date '1970-01-01' + CAST(value AS integer) - 1 AS text) FROM {prefix}meta
WHERE name = 'days_since' AND EXISTS (
    SELECT FROM pg_constraint
    WHERE conrelid = to_regclass('{prefix}postings') AND conname = '{prefix}postings_before_ends'
)

-- name: rights
SELECT quote_ident(current_user), quote_ident(current_schema()),
    coalesce(has_schema_privilege(current_schema(), 'CREATE'), false),
    has_table_privilege('{prefix}meta', 'INSERT') AND has_table_privilege('{prefix}meta', 'UPDATE'),
    has_table_privilege('{prefix}calls', 'INSERT'), quote_ident(pg_get_userbyid(relowner)), pg_has_role(relowner, 'USAGE')
FROM pg_class WHERE oid = to_regclass('{prefix}calls')

-- Roles that may fold postings, and may not run all functions that do it by days.
-- name: day_functions
SELECT quote_ident(pg_get_userbyid(acl.grantee)), string_agg(CAST(made.id AS text), ', ' ORDER BY made.name)
FROM pg_class AS class CROSS JOIN aclexplode(class.relacl) AS acl
CROSS JOIN (
    SELECT name, to_regprocedure('{prefix}' || name || '_day(date)') AS id FROM unnest(ARRAY['make', 'fold', 'drop']) AS name
) AS made
WHERE class.oid = to_regclass('{prefix}postings') AND acl.privilege_type = 'DELETE' AND acl.grantee NOT IN (0, class.relowner)
    AND NOT has_function_privilege(acl.grantee, made.id, 'EXECUTE')
GROUP BY acl.grantee ORDER BY 1

-- Roles with rights on the calls need them on the tables of later versions, which belong to the role that makes them.
-- name: grants
WITH made (name, id) AS (
    SELECT name, CAST(to_regclass(name) AS oid)
    FROM unnest(ARRAY[{added}]) AS name
), maker (id) AS (
    SELECT CASE WHEN has_schema_privilege(current_schema(), 'CREATE')
        THEN (SELECT oid FROM pg_roles WHERE rolname = current_user) ELSE relowner END
    FROM pg_class WHERE oid = to_regclass('{prefix}calls')
), holder (id, writes) AS (
    SELECT acl.grantee, bool_or(acl.privilege_type = 'INSERT')
    FROM pg_class AS class CROSS JOIN aclexplode(coalesce(class.relacl, acldefault('r', class.relowner))) AS acl
    WHERE class.oid = to_regclass('{prefix}calls') AND acl.privilege_type IN ('SELECT', 'INSERT') GROUP BY acl.grantee
), given (id, writes) AS (
    SELECT acl.grantee, bool_or(acl.privilege_type = 'INSERT') AND bool_or(acl.privilege_type = 'UPDATE')
    FROM maker JOIN pg_default_acl AS preset ON preset.defaclrole = maker.id AND preset.defaclobjtype = 'r'
        AND preset.defaclnamespace IN (0, CAST(to_regnamespace(quote_ident(current_schema())) AS oid))
    CROSS JOIN aclexplode(preset.defaclacl) AS acl GROUP BY acl.grantee
    HAVING bool_or(acl.privilege_type = 'SELECT')
)
SELECT CASE WHEN holder.id = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(holder.id)) END, holder.writes,
    string_agg(made.name, ', ' ORDER BY made.name DESC)
FROM holder CROSS JOIN made CROSS JOIN maker
WHERE NOT CASE
    WHEN made.id IS NOT NULL THEN has_table_privilege(holder.id, made.id, 'SELECT') AND (NOT holder.writes
        OR has_table_privilege(holder.id, made.id, 'INSERT') AND has_table_privilege(holder.id, made.id, 'UPDATE'))
    ELSE (holder.id <> 0 AND pg_has_role(holder.id, maker.id, 'USAGE'))
        OR EXISTS (SELECT FROM given WHERE given.id IN (0, holder.id) AND given.writes >= holder.writes)
    END
GROUP BY holder.id, holder.writes ORDER BY 1
