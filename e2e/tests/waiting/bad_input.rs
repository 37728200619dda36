//! Bad input: one line that says what is wrong, the contract's exit code, nothing left running.

use std::fs;

use e2e::certificate::Certificate;
use e2e::nginx::Nginx;
use e2e::plimsoll::{Finished, Plimsoll};
use e2e::port;

/// Nothing listens there, and nothing must be sent there.
const URL: &str = "http://127.0.0.1:9/";

/// Checks that a run was refused with `code` and one line that holds each of `words`.
fn assert_refused(finished: &Finished, shown: &str, code: i32, words: &[&str]) {
    let stderr = &finished.stderr;
    assert_eq!(finished.code, Some(code), "{shown}: {stderr}");
    assert_eq!(finished.stdout, "", "{shown}");
    assert!(stderr.starts_with("plimsoll: "), "{shown}: {stderr}");
    assert!(stderr.ends_with('\n') && stderr.lines().count() == 1, "{shown}: {stderr}");
    for word in words {
        assert!(stderr.contains(word), "{shown}: {word:?} is not in {stderr}");
    }
    finished.assert_no_scratch();
}

fn refused(arguments: &[&str], code: i32, words: &[&str]) {
    assert_refused(&Plimsoll::new(arguments).run(), &arguments.join(" "), code, words);
}

#[test]
fn flags_that_make_no_sense() {
    for (arguments, words) in [
        (&["load"][..], &["no URL", "http://"][..]),
        (&[], &["no command", "plimsoll lab"]),
        (&["sink", URL], &["unknown command", "sink"]),
        (&["load", URL, "--rats", "5"], &["--rats", "--rate"]),
        (&["load", "127.0.0.1:80"], &["127.0.0.1:80", "http://"]),
        (&["load", "ftp://127.0.0.1/"], &["ftp://127.0.0.1/", "http"]),
        (&["load", "http://"], &["http://"]),
        (&["load", "http://127.0.0.1:99999/"], &["99999"]),
        (&["load", "http://[::1/"], &["[::1"]),
        (&["load", URL, "--rate", "fast"], &["--rate", "fast"]),
        (&["load", URL, "--rate", "-1"], &["--rate", "-1"]),
        (&["load", URL, "--rate", "1m"], &["--rate", "1M/s", "1/m"]),
        (&["load", URL, "--stages", "5s:1m"], &["--stages", "1M/s", "1/m"]),
        (&["load", URL, "-n", "2m"], &["--requests", "2M"]),
        (&["load", URL, "--watch", "haproxy:ipv4@nowhere"], &["--watch", "host:port"]),
        (&["load", URL, "--rate", "1e99"], &["--rate", "1e99"]),
        (&["load", URL, "--rate", "1/h", "-d", "1s"], &["--rate", "no request"]),
        (&["load", URL, "--stages", "5s"], &["--stages", "5s"]),
        (&["load", URL, "--stages", "5s:0"], &["--stages"]),
        (&["load", URL, "-d", "0s"], &["--duration"]),
        (&["load", URL, "-n", "0"], &["--requests"]),
        (&["load", URL, "-c", "0"], &["--connections"]),
        (&["load", URL, "--slo", "p99"], &["--slo", "p99"]),
        (&["load", URL, "--slo", "p101<5ms"], &["--slo", "p101"]),
        (&["load", URL, "--source", "127.0.0.0/33"], &["--source", "/33"]),
        (&["load", URL, "-H", "no colon"], &["--header"]),
        (&["load", URL, "-X", "G T"], &["--method", "G T"]),
        (&["load", URL, "--tls", "1.1"], &["--tls", "1.2"]),
        (&["load", URL, "--rate", "0", "--stages", "1s:5"], &["--rate 0", "--stages"]),
        (&["load", URL, "--no-keepalive", "--requests-per-connection", "5"], &["--no-keepalive"]),
        (&["load", URL, "--json", "/nonexistent/x.json"], &["--json", "/nonexistent/x.json"]),
        (&["find"], &["rate"]),
        (&["find", "speed", URL], &["speed", "rate"]),
        (&["find", "rate", URL, "--mode", "slow"], &["--mode", "slow", "quick"]),
        (&["find", "rate", URL, "--min", "10", "--max", "5"], &["--min", "--max"]),
        (&["lab", "--sut", "apache"], &["--sut", "apache", "haproxy"]),
        (&["lab", "--backends", "0"], &["--backends"]),
        (&["lab", "--haproxy", "/nonexistent/haproxy"], &["--haproxy", "/nonexistent/haproxy"]),
        (&["lab", "--slo", "p99<"], &["--slo"]),
        (&["hold", URL], &["--connections 10k"]),
        (&["hold", "-c", "9"], &["no URL", "http://"]),
        (&["hold", URL, "-c", "0"], &["--connections"]),
        (&["hold", URL, "-c", "9", "--rate", "0"], &["--rate", "above 0"]),
        (&["hold", URL, "-c", "9", "--for", "10"], &["--for", "10s"]),
        (&["hold", URL, "-c", "9", "--duration", "10s"], &["--duration", "--for"]),
        (&["hold", URL, "-c", "9", "--no-keepalive"], &["--no-keepalive", "plimsoll load"]),
        (&["hold", URL, "-c", "2", "--processes", "3"], &["--processes 3", "2 connections"]),
        (&["lab", "hold", "--handshake-only"], &["--handshake-only"]),
        (&["lab", "hold", "--haproxy", "/nonexistent/haproxy"], &["/nonexistent/haproxy"]),
        (&["lab", "hold", "now"], &["now", "plimsoll lab"]),
        (&["lab", "sweep"], &["--vary"]),
        (&["lab", "sweep", "--vary", "colour=red,blue"], &["colour", "no such key", "sut-cpus"]),
        (&["lab", "sweep", "--vary", "tls=on"], &["1 combinations", "more"]),
        (&["lab", "sweep", "--vary", "tls=on,off", "--vary", "tls=off,on"], &["tls", "twice"]),
        (&["lab", "sweep", "--vary", "tls=on,maybe"], &["tls", "maybe", "on or off"]),
        (
            &["lab", "sweep", "--vary", "tls=on,off", "--budget", "9s"],
            &["--budget", "too short", "give 72.6 s"],
        ),
        (&["load", URL, "--handshake-only", "--data", "x"], &["--handshake-only", "--data"]),
        (&["load", URL, "--tls-state", "whole"], &["--tls-state", "compact, rustls"]),
        (&["serve", "-c", "9", "--processes", "2"], &["--connections", "--processes"]),
        (&["serve", "--http", "nowhere"], &["--http", "nowhere"]),
        (&["serve", "--cert", "a", "--key", "b"], &["--cert", "--https"]),
        (&["serve", "--https", "0", "--cert", "a"], &["--cert", "--key"]),
        (&["report"], &["report", "directory"]),
        (&["report", "/nonexistent/run"], &["/nonexistent/run"]),
    ] {
        refused(arguments, 2, words);
    }
}

#[test]
fn files_that_cannot_be_used() {
    let certificate = Certificate::new();
    let (chain, key) = (certificate.chain_argument(), certificate.key_argument());
    let tls = ["load", "https://127.0.0.1:9/"];
    for (more, words) in [
        (&["--cert", &chain][..], &["--cert", "--key"][..]),
        (&["--key", &key], &["--key", "--cert"]),
        (&["--cert", &chain, "--key", "/nonexistent/key"], &["--key", "/nonexistent/key"]),
        (&["--cert", &key, "--key", &key], &["--cert"]),
        (&["--cert", &chain, "--key", &chain], &["--key"]),
        (&["--cacert", &key], &["--cacert"]),
        (&["--cacert", "/nonexistent/ca"], &["--cacert", "/nonexistent/ca"]),
        (&["--body", "/nonexistent/body"], &["--body", "/nonexistent/body"]),
    ] {
        refused(&[&tls[..], more].concat(), 2, words);
    }
    // Sound by themselves, and no pair.
    let other = Certificate::new();
    let unlike = other.key_argument();
    let pair = ["--cert", &chain, "--key", &unlike];
    for command in [&tls[..], &["serve", "--https", "127.0.0.1:0"]] {
        refused(&[command, &pair].concat(), 2, &[&chain, &unlike, "does not match"]);
    }
}

#[test]
fn targets_that_are_malformed_are_named_by_line() {
    for (name, content, words) in [
        (
            "t.http",
            &b"GET http://127.0.0.1:9/\nX: 1\n\nFETCH-ME\n"[..],
            &["--targets t.http, line 4: ", "FETCH-ME"][..],
        ),
        ("t.http", b"GET http://127.0.0.1:9/\nno header\n", &["--targets t.http, line 2: "]),
        ("t.http", b"GET 127.0.0.1:9/\n", &["--targets t.http, line 1: ", "127.0.0.1:9/"]),
        (
            "t.http",
            b"POST http://127.0.0.1:9/\n@nothing\n",
            &["--targets t.http, line 2: ", "nothing"],
        ),
        ("t.http", b"# nothing\n", &["t.http", "no targets"]),
        ("t.http", b"", &["t.http", "no targets"]),
        ("t.http", b"GET http://127.0.0.1:9/\xff\n", &["--targets t.http, line 1: ", "UTF-8"]),
        (
            "t.json",
            b"{\"method\":\"GET\",\"url\":\"http://127.0.0.1:9/\"}\n{\"method\":\n",
            &["--targets t.json, line 2: "],
        ),
        (
            "t.json",
            b"{\"method\":\"GET\",\"uri\":\"http://127.0.0.1:9/\"}\n",
            &["--targets t.json, line 1: ", "uri"],
        ),
        (
            "t.json",
            b"{\"method\":\"GET\",\"url\":\"http://127.0.0.1:9/\",\"body\":\"*\"}",
            &["--targets t.json, line 1: ", "base64"],
        ),
    ] {
        let flags = ["load", "--targets", name];
        let finished = Plimsoll::new(flags).with_file(name, content).run();
        assert_refused(&finished, &String::from_utf8_lossy(content), 2, words);
    }
    refused(&["load", "--targets", "/nonexistent/targets"], 2, &["/nonexistent/targets"]);
    refused(&["load", "--targets", "/"], 2, &["--targets", "it is a directory"]);
    let empty = Plimsoll::new(["load", "--targets", "-"]).with_input("").run();
    assert_refused(&empty, "empty standard input", 2, &["standard input", "no targets"]);
}

#[test]
fn every_list_is_read_alike() {
    let (mqtt, http) = ("mqtt://127.0.0.1:9", "http://127.0.0.1:9/");
    for flags in [
        &["load", mqtt, "--users", "list"][..],
        &["load", mqtt, "--client-ids", "list", "-c", "1"],
        &["load", "--targets", "list"],
        &["load", http, "--hosts", "@list"],
        &["load", "tcp://127.0.0.1:9", "--script", "list"],
    ] {
        for (content, words) in [
            (&b"# c\r\n# d\r# e\n\xC3("[..], "list, line 4: not UTF-8"),
            (b"\xEF\xBB\xBF# c\r\n\r\n\xE9", "list, line 3: not UTF-8"),
            (b"\xFF\xFEa\0\n\0", "list, line 1: the text is UTF-16"),
            (b"\xFE\xFF\0a", "list, line 1: the text is UTF-16"),
            (b"# c\na\0b", "list, line 2: a NUL byte"),
            (b"", "list"),
            (b"\xEF\xBB\xBF# c\r\r \t\n", "list"),
        ] {
            let finished = Plimsoll::new(flags).with_file("list", content).run();
            assert_refused(&finished, &String::from_utf8_lossy(content), 2, &[words]);
        }
    }
}

#[test]
fn a_world_that_refuses_is_exit_code_1() {
    refused(&["load", "http://no-such-host.invalid/"], 1, &["no-such-host.invalid"]);
    refused(&["find", "rate", "http://no-such-host.invalid/"], 1, &["no-such-host.invalid"]);
    let nginx = Nginx::start(false, "");
    let taken = nginx.address.to_string();
    refused(&["serve", "--http", &taken], 1, &[&taken]);
    refused(&["serve", "--http", "192.0.2.1:1"], 1, &["192.0.2.1"]);
    // Programs that are not what they are said to be.
    refused(&["lab", "--haproxy", "/bin/false"], 1, &["/bin/false"]);
    refused(&["lab", "--nginx", "/bin/false"], 1, &["/bin/false"]);
}

#[test]
fn archives_that_cannot_be_read_are_named() {
    let not_json = Plimsoll::new(["report", "."]).with_file("manifest.json", "{]").run();
    assert_refused(&not_json, "a broken manifest", 2, &["manifest.json"]);
    let foreign = Plimsoll::new(["report", "."])
        .with_file("manifest.json", "{\"schema\":\"plimsoll.archive/999\"}")
        .run();
    assert_refused(&foreign, "a manifest of the future", 2, &["plimsoll.archive/999"]);
    refused(&["report", "/"], 2, &["/"]);
}

#[test]
fn nobody_at_the_other_end_is_a_result_and_no_refusal() {
    let url = format!("http://{}/", port::free());
    let load = Plimsoll::load(&url, &["-n", "10", "--rate", "100"]).run();
    load.summary(99).assert_all_failed(10, "connect-refused");
    assert!(load.stderr.contains("connect-refused"), "{}", load.stderr);
}

#[test]
fn doctor_lists_what_stops_a_hold_and_nothing_is_started() {
    // 200 files for each process and one process for all: a proxy cannot hold 1,000.
    let limited = |arguments: &[&str]| Plimsoll::after("ulimit -n 200", arguments).run();
    let finished = limited(&["doctor", "-c", "1k", "--role", "proxy", "--json", "doctor.json"]);
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    assert!(finished.stderr.is_empty(), "{}", finished.stderr);
    let first = "This host cannot hold 1,000 connections; it can hold 68.";
    assert!(finished.stdout.starts_with(first), "{}", finished.stdout);
    let json = fs::read_to_string(finished.folder().join("doctor.json")).expect("written");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["limits"][0]["name"], "open files of a process (proxy)");
    assert_eq!(limited(&["doctor", "-c", "68", "--role", "proxy"]).code, Some(0));
    for (arguments, code) in [
        (&["doctor"][..], 2),
        (&["doctor", "-c", "0"], 2),
        (&["doctor", "-c", "9", "--role", "x"], 2),
    ] {
        let finished = limited(arguments);
        assert_eq!(finished.code, Some(code), "{arguments:?} {}", finished.stdout);
        assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
    }
}

#[test]
fn tune_changes_a_network_namespace_of_its_own_and_changes_it_back() {
    let goal = "-c 40k --role proxy --rate 1k --destinations 2";
    let script = format!(
        "before=$(cat /proc/sys/net/ipv4/*); \
         \"$0\" tune apply {goal} --yes --journal journals && \
         cat /proc/sys/net/ipv4/ip_local_port_range && \
         \"$0\" tune revert --journal journals && \
         [ \"$before\" = \"$(cat /proc/sys/net/ipv4/*)\" ] && echo as before"
    );
    let finished = Plimsoll::unshared("-n", &script, &[]).run();
    let (stdout, stderr) = (&finished.stdout, &finished.stderr);
    assert_eq!(finished.code, Some(0), "{stdout}{stderr}");
    assert!(stdout.contains("\n1024\t65535\n") && stdout.ends_with("as before\n"), "{stdout}");
    let again = Plimsoll::new(["tune", "revert", "--journal", "journals"]);
    refused(&["tune", "revert", "--journal", "nowhere"], 1, &["no changes that are not reverted"]);
    refused(&["tune", "apply", "-c", "1k"], 2, &["add --yes"]);
    let again = again.within(&finished.folder()).run();
    assert_refused(&again, "a second revert", 1, &["no changes that are not reverted"]);
}

#[test]
fn nothing_is_written_through_a_planted_link() {
    let planted = "echo untouched > target && ln -s target out.json && mkdir -m 0777 journals";
    let load = Plimsoll::after(planted, &["load", URL, "--json", "out.json"]).run();
    assert_refused(&load, "a link as an output", 1, &["--json", "symbolic link"]);
    let target = || fs::read_to_string(load.folder().join("target")).expect("planted");
    assert_eq!(target(), "untouched\n");
    let revert = Plimsoll::new(["tune", "revert", "--journal", "journals"]);
    let revert = revert.within(&load.folder()).run();
    assert_refused(&revert, "a journal that anybody can forge", 1, &["mode 0777", "chmod go-w"]);
}
