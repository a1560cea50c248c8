#!/usr/bin/env bash
# Alertmanager 0.28 and later: `status.mutedBy` of /api/v2/alerts is always empty.
#
# An alert that a time interval mutes (`mute_time_intervals`, `active_time_intervals`) has the state
# "active" and an empty `mutedBy` in /api/v2/alerts; only /api/v2/alerts/groups says "suppressed" and
# names the interval. The changelog of 0.28.0 says that both do. Before 0.28 neither has the field.
# So what asks why nobody is notified must read the groups.
#
# Seen on 2026-11-30 with Alertmanager 0.35.0, built from the module github.com/prometheus/alertmanager,
# and, without the field, with Debian's 0.25.0-1+b4:
#   /api/v2/alerts: active []
#   /api/v2/alerts/groups: suppressed ["always"]
#
# Needs an Alertmanager of 0.28 or later, named by ALERTMANAGER; curl and jq. Exits 0 if that is still
# so, 1 if it has changed.
set -euo pipefail

alertmanager=${ALERTMANAGER:?name an Alertmanager of 0.28 or later}
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"

cat >alertmanager.yml <<'YML'
route: {receiver: top, group_wait: 0s, routes: [{matchers: [alertname="A"], receiver: top, mute_time_intervals: [always]}]}
time_intervals: [{name: always, time_intervals: [{times: [{start_time: "00:00", end_time: "24:00"}]}]}]
receivers: [{name: top, webhook_configs: [{url: "http://127.0.0.1:1/"}]}]
YML
port=$((RANDOM % 10000 + 20000))
"$alertmanager" --config.file alertmanager.yml --storage.path data --web.listen-address "127.0.0.1:$port" \
    --cluster.listen-address '' >log 2>&1 &
server=$!
for _ in $(seq 100); do
    curl --silent --fail --output /dev/null "127.0.0.1:$port/-/ready" && break
    sleep 0.1
done
curl --silent --fail --header 'Content-Type: application/json' --data '[{"labels": {"alertname": "A"}}]' \
    "127.0.0.1:$port/api/v2/alerts"
# Before 0.35 it shows with the first flush of the group.
for _ in $(seq 50); do
    groups=$(curl --silent --fail "127.0.0.1:$port/api/v2/alerts/groups")
    [[ $(jq --raw-output '.[0].alerts[0].status.state' <<<"$groups") == suppressed ]] && break
    sleep 0.1
done
{
    curl --silent --fail "127.0.0.1:$port/api/v2/alerts" |
        jq --raw-output '.[0].status | "/api/v2/alerts: \(.state) \(.mutedBy)"'
    jq --raw-output '.[0].alerts[0].status | "/api/v2/alerts/groups: \(.state) \(.mutedBy)"' <<<"$groups"
} | tee seen
diff seen - <<'END'
/api/v2/alerts: active []
/api/v2/alerts/groups: suppressed ["always"]
END
echo "as seen before"
