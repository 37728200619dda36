"""Sends METHOD /PATH to 127.0.0.1:PORT TIMES times on one connection, and exits with 0 if each answer is complete."""
import http.client
import sys

port, method, path, times = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
try:
    for _ in range(times):
        connection.request(method, path)
        connection.getresponse().read()
except (OSError, http.client.HTTPException, ValueError) as error:
    sys.exit(f"{type(error).__name__}: {error}")
