#!/bin/sh
# The control room is tried in a real browser, Debian's Chromium or the one that CHROMIUM names; and the commands that
# docs/own-wallet.md has for a shell are tried with openssl; ledgers are tried behind Debian's PgBouncer.
set -eu
missing=""
command -v "${CHROMIUM:-chromium}" >/dev/null || missing="chromium"
command -v openssl >/dev/null || missing="$missing openssl"
# Debian installs it where a user's PATH may not lead.
PATH="$PATH:/usr/sbin" command -v pgbouncer >/dev/null || missing="$missing pgbouncer"
if [ -z "$missing" ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "The tests need $missing. Install it; CHROMIUM=/path/to/chromium names a browser." >&2
    exit 1
fi
as_root=""
if [ "$(id -u)" != 0 ]; then
    as_root="sudo"
fi
echo "installing $missing …"
export DEBIAN_FRONTEND=noninteractive
# Unquoted: each word is a package.
$as_root apt-get install -y -qq $missing >/dev/null || {
    $as_root apt-get update -qq
    $as_root apt-get install -y -qq $missing >/dev/null
}
