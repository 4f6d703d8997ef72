#!/usr/bin/env bash
# The server's own protocol, by curl: a session, a message, its answer.
# prints: Hello from curl
set -euo pipefail
url=${PARLEY_URL:-http://127.0.0.1:8080}
json='Content-Type: application/json'

session=$(curl -sf -X POST "$url/api/sessions" -H "$json" -d '{}' | sed -E 's/.*"session":"([^"]+)".*/\1/')
# The message is stored when the answer's first byte comes; ?wait gives the agent time to answer it.
curl -sf -X POST "$url/api/sessions/$session/messages?wait=30s" -H "$json" \
  -d '{"text":"/say Hello from curl","client_msg_id":"first"}'
echo
