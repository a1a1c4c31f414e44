-- What our connections are set to; {until} is true for the end of the transaction.

-- All our look-ups are by key. A plan made while a table was small must not scan it once it is large.
-- name: transaction
SELECT set_config('enable_seqscan', 'off', {until}),
    set_config('enable_hashjoin', 'off', {until}),
    set_config('enable_mergejoin', 'off', {until}),
    set_config('jit', 'off', {until}),
    set_config('plan_cache_mode', 'force_generic_plan', {until}),
    set_config('lock_timeout', '{lock}', {until}),
    set_config('statement_timeout', '{statement}', {until}),
    set_config('idle_in_transaction_session_timeout', '{idle}', {until}),
-- "off" and "local" do not wait for disk and standby, and "remote_apply" waits for more than we ask.
    set_config('synchronous_commit', CASE current_setting('synchronous_commit')
        WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, {until}),
-- A warning reports a commit in doubt.
    set_config('client_min_messages', 'warning', {until}),
    set_config('timezone', 'UTC', {until})

-- name: session
{transaction}, set_config('default_transaction_isolation', 'read committed', {until})
