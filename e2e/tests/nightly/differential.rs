//! A corpus of answers, sent to plimsoll and to other clients. The corpus argues each outcome that plimsoll alone has;
//! an argument for an outcome that others share is a failure, too.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use e2e::answers::{Case, corpus, folder, serve_http1};
use e2e::plimsoll::Plimsoll;
use e2e::program;
use e2e::summary::Summary;

/// Returns the outcome in plimsoll: `ok`, or the one class of the operations.
fn plimsoll(case: &Case, server: SocketAddr) -> String {
    let url = format!("http://{server}/{}", case.name);
    let times = case.times.to_string();
    let method = if case.is_head { "HEAD" } else { "GET" };
    let flags = ["-X", method, "--rate", "0", "-c", "1", "-n", &times, "--linger", "2s"];
    let ran = Plimsoll::load(&url, &flags).run();
    let summary = Summary::parse(&ran.stdout);
    let classes: Vec<_> = summary.counts("error_classes").into_iter().collect();
    match &classes[..] {
        [] => "ok".to_owned(),
        [(class, count)] if *count == u64::from(case.times) => class.clone(),
        some => format!("{some:?} of {times}"),
    }
}

/// Returns `true` if the client accepted every answer as complete.
fn takes(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().expect("an installed program can be run").success()
}

fn curl(case: &Case, server: SocketAddr) -> bool {
    let mut curl = Command::new(program::installed("curl"));
    curl.args(["--silent", "--http1.1", "--fail-early", "--max-time", "2"]);
    if case.is_head {
        curl.arg("--head");
    }
    for _ in 0..case.times {
        curl.args(["--output", "/dev/null"]).arg(format!("http://{server}/{}", case.name));
    }
    takes(&mut curl)
}

fn http_client(case: &Case, server: SocketAddr) -> bool {
    let mut python = Command::new(program::installed("python3"));
    python.arg(folder().join("http1.py")).arg(server.port().to_string());
    python.arg(if case.is_head { "HEAD" } else { "GET" }).arg(format!("/{}", case.name));
    takes(python.arg(case.times.to_string()))
}

#[test]
#[ignore = "minutes"]
fn plimsoll_takes_the_answers_that_others_take() {
    let cases = corpus("http1");
    let server = serve_http1(&cases);
    let mut faults = Vec::new();
    for case in &cases {
        let ours = plimsoll(case, server);
        let takes = matches!(&ours[..], "ok" | "status-4xx" | "status-5xx");
        let others = [curl(case, server), http_client(case, server)];
        let is_alone = others.iter().all(|other| *other != takes);
        println!("{}: {ours}, curl {}, http.client {}", case.name, others[0], others[1]);
        if ours != case.plimsoll {
            faults.push(format!("{}: {ours} instead of {}", case.name, case.plimsoll));
        }
        match (&case.argued, is_alone) {
            (None, true) => faults.push(format!("{}: plimsoll alone says {ours}", case.name)),
            (Some(why), false) => {
                faults.push(format!("{}: not alone, and argued: {why}", case.name))
            }
            _ => {}
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
