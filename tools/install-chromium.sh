#!/bin/sh
# The control room is tried in a real browser: Debian's Chromium, or the one that CHROMIUM names.
set -eu
if command -v "${CHROMIUM:-chromium}" >/dev/null; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "The tests need Chromium. Install it, and name it by CHROMIUM=/path/to/chromium." >&2
    exit 1
fi
as_root=""
if [ "$(id -u)" != 0 ]; then
    as_root="sudo"
fi
echo "installing chromium …"
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get install -y -qq chromium >/dev/null || {
    $as_root apt-get update -qq
    $as_root apt-get install -y -qq chromium >/dev/null
}
