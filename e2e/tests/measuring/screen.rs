//! A search on the screen of a terminal: beside much else its first trials are INVALID, and nothing is to be shown.

use e2e::serve::Serve;
use e2e::terminal::Terminal;
use e2e::turn::beside_others;

#[test]
fn s_ends_a_search_with_the_answer_so_far() {
    let _machine = beside_others();
    let serve = Serve::plain();
    let terminal = Terminal::start();
    let url = serve.url();
    terminal.enter(&format!(
        "stty -g > before; $PLIMSOLL find rate {url} --budget 5m --out run > report; echo \"ended $?\"; \
         stty -g > after; head -1 report; touch over"
    ));
    terminal.wait_for("s stop with the answer so far");
    terminal.wait_for("so far: at least");
    terminal.press("s");
    terminal.assert_restored(130);
    assert!(
        terminal.file("report").starts_with("Stopped: at least "),
        "{}",
        terminal.file("report")
    );
}
