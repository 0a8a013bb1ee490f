package main

import (
	"io"
	"net/http"
)

const page = "Hello world\n"

// The page of twelve bytes, by net/http as it comes.
func serveHTTP() error {
	listener, err := listen()
	if err != nil {
		return err
	}
	return http.Serve(listener, http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		answer.Header().Set("Content-Type", "text/plain")
		io.WriteString(answer, page)
	}))
}
