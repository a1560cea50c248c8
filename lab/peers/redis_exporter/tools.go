//go:build tools

// Pins the peer that `make bench` measures lockwatch beside.
package tools

import _ "github.com/oliver006/redis_exporter"
