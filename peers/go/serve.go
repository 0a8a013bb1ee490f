package main

import (
	"fmt"
	"io"
	"net"
	"os"
)

// Listens where nobody else does, and says where; ends with the standard input, so that no server is
// left behind when its client exits.
func listen() (net.Listener, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	fmt.Println(listener.Addr())
	return listener, nil
}
