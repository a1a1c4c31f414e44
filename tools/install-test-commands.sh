#!/bin/sh
# The control room is tried in a real browser, Debian's Chromium or the one that CHROMIUM names; and the commands that
# docs/tutorials/another-language.md has for a shell are tried with openssl. Ledgers are tried behind Debian's
# PgBouncer, and what a proxy lets through with Caddy, HAProxy and nginx.
set -eu
missing=""
command -v "${CHROMIUM:-chromium}" >/dev/null || missing="chromium"
command -v openssl >/dev/null || missing="$missing openssl"
# Debian installs these where a user's PATH may not lead.
for each in pgbouncer caddy haproxy; do
    PATH="$PATH:/usr/sbin" command -v "$each" >/dev/null || missing="$missing $each"
done
PATH="$PATH:/usr/sbin" command -v nginx >/dev/null || missing="$missing nginx-light"
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
