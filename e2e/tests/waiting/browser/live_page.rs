//! The page of a run in progress: it grows without a gap, whatever becomes of its connections, ends as the
//! report, and asks nobody else for anything.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use e2e::browser::{Browser, Page, Screen, Theme, checks, content};
use e2e::cutting::Cutting;
use e2e::plimsoll::{Plimsoll, Running};
use e2e::runs::Run;
use e2e::serve::Serve;
use e2e::{port, wait};

const WIDE: Screen = Screen { theme: Theme::Light, width: 1_600 };
/// The times of the seconds that a page has.
const SECONDS: &str = "(state.views[0]?.seconds?.t ?? [])";

/// Starts a load that runs until it is stopped, shown at `live`.
fn load(url: &str, live: &str) -> Running {
    let flags = ["load", url, "--rate", "100", "-d", "10m", "--out", "run"];
    Plimsoll::new(flags.into_iter().chain(["--live", live])).start()
}

fn opened<'a>(browser: &'a Browser, address: SocketAddr) -> Page<'a> {
    let page = browser.page();
    page.show_on(WIDE);
    page.load(&format!("http://{address}/"));
    page
}

fn wait_for_seconds(page: &Page<'_>, count: usize) {
    page.wait_for("seconds on the live page", &format!("{SECONDS}.length >= {count}"));
}

/// Checks that every second is there once.
fn assert_no_gap(page: &Page<'_>) {
    let seconds: Vec<f64> = serde_json::from_value(page.evaluate(SECONDS)).expect("times");
    let has_all = seconds.windows(2).all(|pair| (pair[1] - pair[0] - 1.0).abs() < 0.01);
    assert!(has_all && seconds.first() <= Some(&1.0), "{seconds:?}");
}

/// Returns the status of the answer to a request with these headers.
fn status(address: SocketAddr, headers: &[&str]) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let headers = headers.iter().map(|header| format!("{header}\r\n")).collect::<String>();
    let request = format!("GET / HTTP/1.1\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers and closes");
    String::from_utf8_lossy(&answer).split(' ').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn the_page_grows_without_a_gap_and_becomes_the_report() {
    let serve = Serve::plain();
    let address = port::free();
    let running = load(serve.url(), &address.to_string());
    wait::until("the live page to be served", || wait::accepts(address).then_some(()));
    let proxy = Cutting::before(address);
    let browser = Browser::start();
    let pages = [opened(&browser, address), opened(&browser, proxy.address)];
    // A viewer that asks for the changes and never reads them.
    let mut asleep = TcpStream::connect(address).expect("it listens");
    let ask = format!("GET /events?after=0 HTTP/1.1\r\nHost: {address}\r\n\r\n");
    asleep.write_all(ask.as_bytes()).expect("it reads");
    wait_for_seconds(&pages[1], 2);
    assert!(proxy.cut() > 0, "nothing was cut");
    let seen = pages[1].evaluate(&format!("{SECONDS}.length")).as_u64().expect("a count") as usize;
    wait_for_seconds(&pages[1], seen + 3);
    wait_for_seconds(&pages[0], seen + 3);
    pages.iter().for_each(assert_no_gap);
    // The rate is drawn, though there was nothing to draw when the page was opened.
    pages[0].wait_for("a chart", "document.querySelector('figure[data-chart=rate] svg') !== null");
    assert_eq!(checks::charts(&pages[0]), [""; 0]);
    assert_eq!(checks::overlaps(&pages[0]), [""; 0]);
    running.signal("INT");
    for page in &pages {
        page.wait_for("the report", "state.views[0]?.summary?.partial === true");
        page.wait_for("its checks", "document.querySelector('#checks') !== null");
        let said = page.texts("[document.getElementById('live-state').textContent]");
        assert!(said[0].starts_with("ended"), "{said:?}");
        assert!(said[0].contains("plimsoll report run --html FILE"), "{said:?}");
        assert_no_gap(page);
        assert_eq!(checks::charts(page), [""; 0]);
    }
    let own = format!("http://{address}/");
    let parts = ["view", "events"].map(|part| format!("{own}{part}"));
    let mut reports = checks::reports(&pages[0], &parts.each_ref().map(String::as_str));
    reports.retain(|report| *report != format!("a request leaves the page: {own}"));
    assert_eq!(reports, [""; 0]);
    let finished = running.finish();
    assert_eq!(finished.code, Some(130), "{}", finished.stderr);
    let question = "does the browser with this page run on this machine?";
    assert_eq!(finished.stderr.matches(question).count(), 1, "{}", finished.stderr);
}

#[test]
fn the_page_of_a_search_grows_trial_by_trial() {
    let serve = Serve::plain();
    let (address, browser) = (port::free(), Browser::start());
    let flags = ["find", "rate", serve.url(), "--mode", "quick", "--out", "run", "--no-ui"];
    let goal = ["--min", "100", "--max", "800", "--slo", "p99<500ms,errors<1%"];
    let live = ["--live", &address.to_string()];
    let running = Plimsoll::new([&flags[..], &goal, &live].concat()).start();
    wait::until("the live page to be served", || wait::accepts(address).then_some(()));
    let page = opened(&browser, address);
    wait::until("a trial's mark", || {
        (!checks::trial_marks(&page, "tipping").is_empty()).then_some(())
    });
    // During the search.
    assert!(page.evaluate("state.views[0].summary ?? null").is_null());
    assert_eq!(checks::overlaps(&page), [""; 0]);
    let run = Run::of_finished("live", &running.finish());
    // The page fetches the report when the search has ended.
    let differs = || content::differs(&page, &run);
    wait::within(wait::PATIENCE, &mut || differs().is_empty().then_some(()));
    assert_eq!(differs(), [""; 0]);
    assert_eq!(checks::charts(&page), [""; 0]);
}

#[test]
fn a_page_is_shown_to_nobody_else() {
    let serve = Serve::plain();
    let (own, open) = (port::free(), port::free());
    let everywhere = format!("0.0.0.0:{}", open.port());
    let runs = [load(serve.url(), &own.to_string()), load(serve.url(), &everywhere)];
    for address in [own, open] {
        wait::until("the page to be served", || wait::accepts(address).then_some(()));
    }
    let host = format!("Host: {own}");
    assert_eq!(status(own, &[&host]), "200");
    assert_eq!(status(own, &[&format!("Host: evil.example:{}", own.port())]), "421");
    assert_eq!(status(own, &[&host, "Origin: http://evil.example"]), "403");
    assert_eq!(status(own, &[&host, "Sec-Fetch-Site: cross-site"]), "403");
    // Whoever listens everywhere has a token, which is not in this path.
    assert_eq!(status(open, &[&format!("Host: {open}")]), "404");
    runs.iter().for_each(|run| run.signal("INT"));
    for run in runs {
        assert_eq!(run.finish().code, Some(130));
    }
}

#[test]
fn no_child_inherits_the_token() {
    const TOKEN: &str = "0123456789abcdef0123456789abcdef";
    let (serve, address) = (Serve::plain(), port::free());
    let live = address.to_string();
    let flags = ["load", serve.url(), "--rate", "10", "-d", "10m", "--live", &live];
    let before = format!("export PLIMSOLL_LIVE_TOKEN={TOKEN}");
    let running = Plimsoll::after(&before, &flags).start();
    wait::until("the live page to be served", || wait::accepts(address).then_some(()));
    let host = format!("Host: {address}");
    assert_eq!(status(address, &[&host]), "404");
    for agent in running.agents() {
        let environment = std::fs::read(format!("/proc/{}/environ", agent.pid)).expect("it runs");
        let environment = String::from_utf8_lossy(&environment).into_owned();
        assert!(environment.contains("PLIMSOLL_E2E_RUN") && !environment.contains(TOKEN));
    }
    running.signal("INT");
    running.finish();
}
