// A TLS peer on Go's crypto/tls, without net/http's pools: each connection is made, used and closed
// by hand.
//
//	peer server CERT KEY VERSION           prints its address, answers until it is killed
//	peer client ADDRESS ROOTS VERSION N    N connections of 3 requests, then how many were resumed
package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
)

const bodyBytes = 100000

func version(text string) uint16 {
	if text == "1.2" {
		return tls.VersionTLS12
	}
	return tls.VersionTLS13
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func serve(conn io.ReadWriteCloser) {
	defer conn.Close()
	reader := bufio.NewReader(conn)
	for {
		request, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, request.Body); err != nil {
			return
		}
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", bodyBytes)
		if _, err := conn.Write(make([]byte, bodyBytes)); err != nil {
			return
		}
		if request.Close {
			return
		}
	}
}

func server(cert, key, pinned string) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	check(err)
	v := version(pinned)
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: v, MaxVersion: v}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	check(err)
	fmt.Println(listener.Addr())
	for {
		conn, err := listener.Accept()
		check(err)
		go serve(conn)
	}
}

func client(address, roots, pinned, count string) {
	pem, err := os.ReadFile(roots)
	check(err)
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		log.Fatal("no roots")
	}
	v := version(pinned)
	config := &tls.Config{
		RootCAs:            pool,
		ServerName:         "localhost",
		MinVersion:         v,
		MaxVersion:         v,
		ClientSessionCache: tls.NewLRUClientSessionCache(8),
	}
	n, err := strconv.Atoi(count)
	check(err)
	resumed := 0
	for range n {
		conn, err := tls.Dial("tcp", address, config)
		check(err)
		reader := bufio.NewReader(conn)
		for range 3 {
			fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nsize: %d\r\n\r\n", bodyBytes)
			response, err := http.ReadResponse(reader, nil)
			check(err)
			body, err := io.ReadAll(response.Body)
			check(err)
			if len(body) != bodyBytes {
				log.Fatalf("%d bytes", len(body))
			}
		}
		if conn.ConnectionState().DidResume {
			resumed++
		}
		// Half a close: what the server answers to it must be readable.
		check(conn.CloseWrite())
		rest, err := io.ReadAll(conn)
		check(err)
		if len(rest) != 0 {
			log.Fatalf("%d bytes after the last answer", len(rest))
		}
		conn.Close()
	}
	fmt.Println(resumed)
}

func main() {
	arguments := os.Args[1:]
	switch {
	case len(arguments) == 4 && arguments[0] == "server":
		server(arguments[1], arguments[2], arguments[3])
	case len(arguments) == 5 && arguments[0] == "client":
		client(arguments[1], arguments[2], arguments[3], arguments[4])
	default:
		log.Fatal("usage: peer server|client ...")
	}
}
