package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime"
	"time"
)

const (
	// What an actor that only computes does between two messages.
	piece = 200 * time.Microsecond
	page  = "HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\nHello world\n"
)

// One server of `freeboard lab eager`: a page over HTTP, or a TCP proxy if there is a backend, which is a port of this
// machine; beside goroutines that only compute. A request computes for cpuUs.
func eager(busy, cpuUs, backend int) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	for i := 0; i < busy; i++ {
		go compute()
	}
	fmt.Println(listener.Addr())
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		if backend == 0 {
			go servePage(connection, time.Duration(cpuUs)*time.Microsecond)
		} else {
			go serveProxy(connection, backend)
		}
	}
}

func compute() {
	for {
		spin(piece)
		runtime.Gosched()
	}
}

func spin(duration time.Duration) {
	for begun := time.Now(); time.Since(begun) < duration; {
	}
}

func servePage(connection net.Conn, computing time.Duration) {
	defer connection.Close()
	buffer := make([]byte, 4096)
	var read []byte
	for {
		head, rest, found := bytes.Cut(read, []byte("\r\n\r\n"))
		if !found {
			count, err := connection.Read(buffer)
			if err != nil {
				return
			}
			read = append(read, buffer[:count]...)
			continue
		}
		spin(computing)
		if _, err := io.WriteString(connection, page); err != nil || !isKept(head) {
			return
		}
		read = append([]byte{}, rest...)
	}
}

// A client of HTTP/1.0 keeps its connection only if it says so.
func isKept(head []byte) bool {
	line, _, _ := bytes.Cut(head, []byte("\r\n"))
	return !bytes.Contains(line, []byte("HTTP/1.0")) || bytes.Contains(head, []byte("Keep-Alive"))
}

// A goroutine for each direction.
func serveProxy(client net.Conn, backend int) {
	defer client.Close()
	server, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", backend))
	if err != nil {
		return
	}
	defer server.Close()
	go carry(server, client)
	carry(client, server)
}

func carry(from, to net.Conn) {
	io.Copy(to, from)
	if half, isTCP := to.(*net.TCPConn); isTCP {
		half.CloseWrite()
	}
}
