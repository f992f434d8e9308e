// Command pause holds a pod's namespaces open, and as the first process of a shared
// process namespace collects the children that others leave behind.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		for {
			var status syscall.WaitStatus
			child, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
			if child <= 0 && err != syscall.EINTR {
				break
			}
		}
	}
}
