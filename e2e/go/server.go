// Servers with a known fault, on Go's own libraries; each prints its address and serves until its input ends.
//
//	server keep BYTES          HTTP; keeps so many bytes of every connection for ever
//	server queue RATE CERT KEY HTTPS; makes RATE handshakes per second, in the order of the connections, also those
//	                           of clients that have left
package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	check(err)
	return value
}

// queued hands out connections whose handshakes are done.
type queued struct {
	net.Listener
	ready chan net.Conn
}

func (q queued) Accept() (net.Conn, error) {
	return <-q.ready, nil
}

// handshakes begins one each period and waits for none: a client that has left costs as much as one that waits.
func (q queued) handshakes(waiting chan net.Conn, config *tls.Config, period time.Duration) {
	next := time.Now()
	for conn := range waiting {
		// A sleep that took too long is made up for, a pause without clients is not.
		if now := time.Now(); now.Sub(next) > 50*time.Millisecond {
			next = now
		}
		next = next.Add(period)
		time.Sleep(time.Until(next))
		go func() {
			session := tls.Server(conn, config)
			session.SetDeadline(time.Now().Add(10 * time.Second))
			if session.Handshake() != nil {
				session.Close()
				return
			}
			session.SetDeadline(time.Time{})
			q.ready <- session
		}()
	}
}

func serve(server *http.Server, listener net.Listener) {
	server.Handler = http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		io.WriteString(answer, "pong")
	})
	server.ErrorLog = log.New(io.Discard, "", 0)
	go server.Serve(listener)
	fmt.Println(listener.Addr())
	io.Copy(io.Discard, os.Stdin)
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	switch os.Args[1] {
	case "keep":
		bytes := number(os.Args[2])
		var mutex sync.Mutex
		var kept [][]byte
		keep := func(_ net.Conn, state http.ConnState) {
			if state != http.StateNew || bytes == 0 {
				return
			}
			own := make([]byte, bytes)
			for at := range own {
				own[at] = byte(at)
			}
			mutex.Lock()
			kept = append(kept, own)
			mutex.Unlock()
		}
		serve(&http.Server{ConnState: keep}, listener)
	case "queue":
		pair, err := tls.LoadX509KeyPair(os.Args[3], os.Args[4])
		check(err)
		config := &tls.Config{Certificates: []tls.Certificate{pair}}
		waiting := make(chan net.Conn, 1<<20)
		queue := queued{listener, make(chan net.Conn, 1<<16)}
		go queue.handshakes(waiting, config, time.Second/time.Duration(number(os.Args[2])))
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					// Out of files, for a while.
					time.Sleep(time.Millisecond)
					continue
				}
				waiting <- conn
			}
		}()
		serve(&http.Server{}, queue)
	}
}
