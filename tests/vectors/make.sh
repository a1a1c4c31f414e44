#!/usr/bin/env bash
# How the vectors beside this script were made: with openssl and node, and without a line of this package.
#
# Each case NAME of the Operator API has
#   NAME.signed     the bytes that spec §5 has signed: the operator id, "<operator_id>:<bet_id>", or the body
#   NAME.signature  their RSA-SHA256 signature by the TEST-ONLY key, in URL-safe Base64 without padding
#   NAME.http       the request as it goes over the wire: request line, the headers of spec §5, body
# and json-stringify.json holds what JSON.stringify writes.
#
# The tests read the files and need neither program. The key is for these files alone: it protects nothing.
set -euo pipefail
cd "$(dirname "$0")"

KEY=TEST-ONLY-private-key.pem
OPERATOR=acme

if [ ! -e "$KEY" ]; then
    openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out "$KEY"
    openssl pkey -in "$KEY" -pubout -out TEST-ONLY-public-key.pem
fi

sign() { # NAME.signed -> NAME.signature
    openssl dgst -sha256 -sign "$KEY" "$1.signed" | openssl base64 -A | tr '+/' '-_' | tr -d '=' > "$1.signature"
}

request() { # NAME METHOD PATH, and the body on standard input
    {
        printf '%s /api/v0.2/%s HTTP/1.1\r\n' "$2" "$3"
        printf 'X-Operator-Id: %s\r\n' "$OPERATOR"
        printf 'X-Signature: %s\r\n\r\n' "$(cat "$1.signature")"
        cat
    } > "$1.http"
}

games() { # NAME
    printf '%s' "$OPERATOR" > "$1.signed"
    sign "$1"
    request "$1" GET fetch-games < /dev/null
}

bet() { # NAME BET_ID ITS_SEGMENT
    printf '%s:%s' "$OPERATOR" "$2" > "$1.signed"
    sign "$1"
    request "$1" GET "fetch-bet/$3" < /dev/null
}

post() { # NAME PATH BODY
    printf '%s' "$3" > "$1.signed"
    sign "$1"
    request "$1" POST "$2" < "$1.signed"
}

games games

bet bet-plain 65f0c0ffee65f0c0ffee0001 65f0c0ffee65f0c0ffee0001
bet bet-slash a/b a%2Fb
bet bet-percent 50% 50%25
bet bet-dots ..%2f ..%252f
bet bet-japanese 日本 %E6%97%A5%E6%9C%AC
bet bet-space 'a b' a%20b
bet bet-plus a+b a%2Bb
bet bet-colon a:b:c a%3Ab%3Ac
bet bet-query 'a?b=c&d#e' a%3Fb%3Dc%26d%23e
bet bet-unreserved 'A-z_0.9~' A-z_0.9~
bet bet-emoji 🎲 %F0%9F%8E%B2
bet bet-composed $'\u00e9' %C3%A9
bet bet-decomposed $'e\u0301' e%CC%81
bet bet-newline $'a\r\nX-Evil: 1' a%0D%0AX-Evil%3A%201

post round-by-id fetch-round-bets '{"instance_id":"65f0c0ffee65f0c0ffee0003","round_id":"round-7"}'
post round-by-number fetch-round-bets '{"instance_id":"65f0c0ffee65f0c0ffee0003","round_no":12}'
post round-by-both fetch-round-bets '{"instance_id":"i","round_no":0,"round_id":"日本/\"7\"\\"}'

post grant free-bet/grant '{"player_id":"player-1","instance_id":"65f0c0ffee65f0c0ffee0003","count":5,"wager_amount_cents":100,"expire_duration_millis":86400000,"reference_id":"welcome-7"}'
post grant-largest free-bet/grant '{"player_id":"player-1","instance_id":"i","count":50,"wager_amount_cents":1000000,"expire_duration_millis":2592000000,"reference_id":"r"}'
post grant-unicode free-bet/grant '{"player_id":"Zoë 🎲\n\u0001\"\\/","instance_id":"é","count":1,"wager_amount_cents":1,"expire_duration_millis":1,"reference_id":"\t\u001f'$'\u007f\u2028''"}'

# Signatures alone, of what no request holds.
printf '' > message-empty.signed && sign message-empty
printf '\000\001\377\376\n' > message-binary.signed && sign message-binary

node make-json.mjs > json-stringify.json
