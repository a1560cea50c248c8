#!/usr/bin/env bash
# Alertmanager: a lone one that is killed may swallow the next notification of the same alert, until
# `repeat_interval` is over (4 hours by default).
#
# What was notified is written to the disk at shutdown and every 15 minutes. If the disk says "firing",
# the alert ends and its end is notified, and Alertmanager is killed before the next write, it believes
# after its start that the firing was notified and nothing since: the next firing of the same group is
# taken for that one. The alert is active in /api/v2/alerts, and no request is made. A cluster of two
# keeps it: the other member has the newer log.
#
# Seen on 2026-11-30 with Debian's Alertmanager 0.25.0-1+b4, and with 0.35.0 built from the module
# github.com/prometheus/alertmanager:
#   notified before: firing resolved
#   the next firing: active, notified 0 times
#
# Needs Alertmanager (ALERTMANAGER names another one than prometheus-alertmanager on PATH), python3,
# curl and jq. Takes about 15 s. Exits 0 if that is still so, 1 if it has changed.
set -euo pipefail

alertmanager=${ALERTMANAGER:-prometheus-alertmanager}
folder=$(mktemp --directory)
trap 'kill "${server:-}" "${receiver:-}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"

port=$((RANDOM % 10000 + 20000))
cat >receiver.py <<'PY'
import http.server, json, sys


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        print(body["status"], flush=True)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
PY
python3 receiver.py $((port + 1)) >notified &
receiver=$!
cat >alertmanager.yml <<YML
route: {receiver: top, group_by: [alertname], group_wait: 0s, group_interval: 1s}
receivers: [{name: top, webhook_configs: [{url: "http://127.0.0.1:$((port + 1))/"}]}]
YML

start() {
    "$alertmanager" --config.file alertmanager.yml --storage.path data --web.listen-address "127.0.0.1:$port" \
        --cluster.listen-address '' >>log 2>&1 &
    server=$!
    for _ in $(seq 100); do
        curl --silent --fail --output /dev/null "127.0.0.1:$port/-/ready" && return
        sleep 0.1
    done
    echo "it does not start" >&2
    exit 1
}

# An alert that ends so many seconds from now.
push() {
    local at
    at=$(date --utc --date "$1 seconds" +%FT%TZ)
    curl --silent --fail --header 'Content-Type: application/json' "127.0.0.1:$port/api/v2/alerts" \
        --data "[{\"labels\": {\"alertname\": \"A\"}, \"startsAt\": \"2020-01-01T00:00:00Z\", \"endsAt\": \"$at\"}]"
}

wait_for() {
    for _ in $(seq 100); do
        [[ $(paste --serial --delimiters ' ' notified) == "$1" ]] && return
        sleep 0.1
    done
    echo "not notified: $1" >&2
    exit 1
}

start
push 600
wait_for firing
kill "$server"
wait "$server" || true
start
push 600
sleep 1
push -1
wait_for 'firing resolved'
kill -9 "$server"
wait "$server" 2>/dev/null || true
start
push 600
# Several times group_wait and group_interval.
sleep 6
{
    echo "notified before: firing resolved"
    curl --silent --fail "127.0.0.1:$port/api/v2/alerts" |
        jq --raw-output --argjson times $(($(wc --lines <notified) - 2)) \
            '.[0].status | "the next firing: \(.state), notified \($times) times"'
} | tee seen
diff seen - <<'END'
notified before: firing resolved
the next firing: active, notified 0 times
END
echo "as seen before"
