//! Spellings of the first version: each still asks for what its present spelling asks for.

use super::build;

const TLS: &str = "https://127.0.0.1:9/";
const OBJECTS: &str = "http://127.0.0.1:9/{size}";

#[test]
fn spellings_of_the_first_version_keep_working() {
    for (then, now) in [
        ("find rate TLS -k --handshake-only", "find handshakes TLS -k"),
        (
            "find rate TLS -k --handshake-only --no-keepalive --mode quick -c 9 --max 90",
            "find handshakes TLS -k --mode quick -c 9 --max 90",
        ),
        ("find handshakes TLS -k --no-keepalive", "find handshakes TLS -k"),
        ("find --mode quick connections TLS -k", "find connections TLS -k --mode quick"),
        ("find TLS rate -k", "find rate TLS -k"),
        (
            "find rate OBJECTS --mode rfc9411 --case 7.2 --target 20k",
            "find rfc9411 OBJECTS --case 7.2 --target 20k",
        ),
        ("find handshakes OBJECTS --mode=rfc9411 --case 7.2", "find rfc9411 OBJECTS --case 7.2"),
        ("lab", "lab rate"),
        ("lab --find rate", "lab rate"),
        ("lab --find handshakes --resume 0.5", "lab handshakes --resume 0.5"),
        ("lab --handshake-only --sut embedded", "lab handshakes --sut embedded"),
        ("lab --find=connections --min 200 --push", "lab connections --min 200 --push"),
        ("lab --find connections -r 1k --for 5s", "lab connections -r 1k --for 5s"),
        ("lab --mode rfc9411 --case 7.6 --sustain 30s", "lab rfc9411 --case 7.6 --sustain 30s"),
        ("lab --find handshakes --mode rfc9411 --case 7.6", "lab rfc9411 --case 7.6"),
    ] {
        let asked = |line: &str| {
            let words = line.split(' ').map(|word| match word {
                "TLS" => TLS,
                "OBJECTS" => OBJECTS,
                word => word,
            });
            build(&words.collect::<Vec<_>>(), b"").unwrap_or_else(|stop| panic!("{line}: {stop:?}"))
        };
        assert_eq!(asked(then), asked(now), "{then}");
    }
}

#[test]
fn a_rate_of_bare_tcp_connections_is_refused_with_what_to_write() {
    let plain = ["find", "rate", "http://127.0.0.1:9/", "--handshake-only"];
    let stop = build(&plain, b"").expect_err("it needs TLS");
    assert_eq!(stop.code(), 2);
    assert_eq!(
        stop.complaint().unwrap(),
        "plimsoll: find handshakes needs TLS, and 127.0.0.1:9 is plain; write https://, or use find rate \
         with --no-keepalive"
    );
}
