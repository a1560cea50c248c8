//go:build tools

// Package pint names the program that go.mod pins.
package pint

import _ "github.com/cloudflare/pint/cmd/pint"
