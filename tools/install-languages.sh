#!/bin/sh
# The wallets in other languages (examples/wallets) run on Node.js, with better-sqlite3 from npm in a folder that all
# checkouts share, and on Debian's PHP. Rules of Prometheus (examples/telemetry) are a language, too: promtool evaluates
# them.
set -eu
CACHE="${XDG_CACHE_HOME:-$HOME/.cache}/game-operator-tests"
BETTER_SQLITE3="better-sqlite3@12.6.2"
missing=""
# A machine may have a newer Node.js, with its own npm.
command -v node >/dev/null || missing="$missing nodejs"
command -v npm >/dev/null || missing="$missing npm"
for module in pdo_sqlite pcntl openssl; do
    php -m 2>/dev/null | grep -qx "$module" || missing="$missing php-cli php-sqlite3"
done
command -v promtool >/dev/null || missing="$missing prometheus"
if [ -n "$missing" ]; then
    if ! command -v apt-get >/dev/null; then
        echo "The wallets in other languages need $missing. Install it." >&2
        exit 1
    fi
    as_root=""
    if [ "$(id -u)" != 0 ]; then
        as_root="sudo"
    fi
    echo "installing$missing …"
    export DEBIAN_FRONTEND=noninteractive
    # Unquoted: each word is a package.
    $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null || {
        $as_root apt-get update -qq
        $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
    }
fi
# A module that was built for another Node.js is built again.
if ! (mkdir -p "$CACHE" && cd "$CACHE" && node -e 'new (require("better-sqlite3"))(":memory:")' 2>/dev/null); then
    echo "installing $BETTER_SQLITE3 …"
    # Where npm cannot download the built module it compiles it, with the headers that came with this Node.js.
    home="$(dirname "$(dirname "$(readlink -f "$(command -v node)")")")"
    if [ -e "$home/include/node/node.h" ]; then
        export npm_config_nodedir="$home"
    fi
    rm -rf "$CACHE/node_modules"
    npm install --prefix "$CACHE" --no-save --no-package-lock --no-audit --no-fund --loglevel error "$BETTER_SQLITE3"
    (cd "$CACHE" && node -e 'new (require("better-sqlite3"))(":memory:")')
fi
