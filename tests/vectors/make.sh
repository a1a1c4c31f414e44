#!/usr/bin/env bash
# How the vectors beside this script were made: with openssl and node, and without a line of this package.
#
# Each case NAME of the Operator API has
#   NAME.signed     the bytes that spec §5 has signed: the operator id, "<operator_id>:<bet_id>", or the body
#   NAME.signature  their RSA-SHA256 signature by the TEST-ONLY key, in URL-safe Base64 without padding
#   NAME.http       the request as it goes over the wire: request line, the headers of spec §5, body
# and json-stringify.json holds what JSON.stringify writes.
#
# Each webhook webhooks/NAME has
#   NAME.body       the body as the service writes it (assumed, docs/decisions/0010)
#   NAME.signature  its signature, as above (assumed, docs/decisions/0011)
# and each reply webhooks/NAME.reply is a body of spec §2.1.
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

webhook() { # NAME BODY
    printf '%s' "$2" > "webhooks/$1.body"
    openssl dgst -sha256 -sign "$KEY" "webhooks/$1.body" | openssl base64 -A | tr '+/' '-_' | tr -d '=' \
        > "webhooks/$1.signature"
}

reply() { # NAME BODY
    printf '%s' "$2" > "webhooks/$1.reply"
}

mkdir -p webhooks
webhook withdraw '{"player_id":"p1","amount":5000,"game":"aviator","instance_id":"i1","action":"BET","action_id":"b1","tx_id":"withdraw:bet:b1"}'
webhook withdraw-rain '{"player_id":"p1","amount":300,"game":"aviator","instance_id":"i1","action":"RAIN","action_id":"b1","tx_id":"withdraw:rain:b1"}'
webhook withdraw-unicode '{"player_id":"Zoë 🎲","amount":1,"game":"é","instance_id":"é","action":"BET","action_id":"日本/\"7\"\\","tx_id":"t\n\u0001"}'
webhook deposit '{"player_id":"p1","amount":15000,"game":"aviator","instance_id":"i1","action":{"type":"BET","round_id":"r1","wager":5000,"won":15000},"action_id":"b1","tx_id":"deposit:bet:b1"}'
webhook deposit-loss '{"player_id":"p1","amount":0,"game":"aviator","instance_id":"i1","action":{"type":"BET","round_id":"r1","wager":5000,"won":0},"action_id":"b1","tx_id":"deposit:bet:b1"}'
webhook deposit-claim '{"player_id":"p1","amount":700,"game":"aviator","instance_id":"i1","action":{"type":"FREE_BET_CLAIM","bets":[{"id":"f1","round_id":"r1","wager":100,"won":700},{"id":"f2","round_id":"r2","wager":100,"won":0}]},"action_id":"c1","tx_id":"deposit:free_bet_claim:c1"}'
webhook deposit-jackpot '{"player_id":"p1","amount":1000000,"game":"aviator","instance_id":"i1","action":{"type":"JACKPOT","jackpot_id":"pool-1"},"action_id":"b1","tx_id":"deposit:jackpot:b1"}'
webhook rollback '{"player_id":"p1","amount":5000,"game":"aviator","instance_id":"i1","action":"BET","action_id":"b1","tx_id":"withdraw:bet:b1","round_id":"r1"}'
webhook player-balance '{"player_id":"p1"}'
# What the service might write as well: other names, other order, white space, and more than is understood.
webhook withdraw-other-names '{ "extra": {"a": [1, 2.50, null]}, "wager": 5000.0, "bet_id": "b1", "player_id": "p1" }'
webhook deposit-other-names '{"player_id":"p1","reference_id":"b1","transaction_id":"t1","won":15000,"round_id":"r1"}'

reply success '{"type":"SUCCESS","balance":100.50,"timestamp":1800000000000}'
reply success-nothing '{"type":"SUCCESS","balance":0.00,"timestamp":1800000000000}'
reply success-large '{"type":"SUCCESS","balance":1234567890.12,"timestamp":1800000000000}'
reply success-debt '{"type":"SUCCESS","balance":-0.05,"timestamp":1800000000000}'
reply error '{"type":"ERROR","code":"SYSTEM_ERROR","timestamp":1800000000000}'
reply error-with-balance '{"type":"ERROR","code":"INSUFFICIENT_BALANCE","balance":1.00,"timestamp":1800000000000}'

# Signatures alone, of what no request holds.
printf '' > message-empty.signed && sign message-empty
printf '\000\001\377\376\n' > message-binary.signed && sign message-binary

node make-json.mjs > json-stringify.json
