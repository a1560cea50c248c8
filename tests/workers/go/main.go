// What the test needs around outbound.go: a connection, and the work.
package main

import (
	"context"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"
)

func isThere(name string) bool {
	_, err := os.Stat(filepath.Join(os.Getenv("FOLDER"), name))
	return err == nil
}

// shipNext is a piece of work. It returns whether to go on.
func shipNext() bool {
	time.Sleep(50 * time.Millisecond)
	for isThere("hang") {
		time.Sleep(50 * time.Millisecond)
	}
	return !isThere("stop")
}

func main() {
	options, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	if err := run(context.Background(), redis.NewClient(options), shipNext); err != nil {
		log.Fatal(err)
	}
}
