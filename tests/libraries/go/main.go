// Command locks holds locks of Go's libraries on command: `locks PORT hold KEY LIBRARY`.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

const lease = 3 * time.Second

// actions of a library: take, renew, release.
type actions map[string]func(context.Context) error

func ofRedsync(client *redis.Client, key string) actions {
	mutex := redsync.New(goredis.NewPool(client)).NewMutex(key, redsync.WithExpiry(lease), redsync.WithTries(1))
	return actions{
		"take": mutex.LockContext,
		"renew": func(ctx context.Context) error {
			_, err := mutex.ExtendContext(ctx)
			return err
		},
		"release": func(ctx context.Context) error {
			_, err := mutex.UnlockContext(ctx)
			return err
		},
	}
}

func ofRedislock(client *redis.Client, key string) actions {
	locker := redislock.New(client)
	var lock *redislock.Lock
	return actions{
		"take": func(ctx context.Context) (err error) {
			lock, err = locker.Obtain(ctx, key, lease, nil)
			return err
		},
		"renew":   func(ctx context.Context) error { return lock.Refresh(ctx, lease, nil) },
		"release": func(ctx context.Context) error { return lock.Release(ctx) },
	}
}

func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dep := range info.Deps {
		if dep.Path == module {
			return dep.Version
		}
	}
	return "unknown"
}

func main() {
	port, key, library := os.Args[1], os.Args[3], os.Args[4]
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})
	libraries := map[string]func(*redis.Client, string) actions{
		"github.com/go-redsync/redsync/v4": ofRedsync,
		"github.com/bsm/redislock":         ofRedislock,
	}
	commands := libraries[library](client, key)
	fmt.Println("ready", version(library))
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		action := strings.TrimSpace(input.Text())
		began := time.Now().UnixMilli()
		if err := commands[action](context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, action, err)
			os.Exit(1)
		}
		fmt.Println(action, began, time.Now().UnixMilli())
	}
}
