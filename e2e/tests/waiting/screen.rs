//! The screen of a run, in a terminal: it is drawn, and the terminal is as before in every end.

use std::time::Duration;

use e2e::process::send_signal;
use e2e::serve::Serve;
use e2e::terminal::Terminal;
use e2e::{process, wait};

/// The second one ends a run; more, for a busy machine.
const PRESSES: usize = 5;
const BETWEEN_PRESSES: Duration = Duration::from_secs(1);

/// Starts a load that nobody waits for; the shell says how it ended, and how the terminal was before and after.
fn load(serve: &Serve) -> Terminal {
    let terminal = Terminal::start();
    let url = serve.url();
    terminal.enter(&format!(
        "stty -g > before; bash -c 'echo $$ > pid; exec $PLIMSOLL load {url} --rate 100 --duration 5m'; \
         echo \"ended $?\"; stty -g > after; touch over"
    ));
    terminal.wait_for("achieved");
    terminal
}

#[test]
fn a_resized_screen_is_drawn_anew_and_q_leaves_it() {
    let serve = Serve::plain();
    let terminal = load(&serve);
    terminal.resize(50, 10);
    terminal.wait_for("terminal too small for more (50 x 10)");
    terminal.resize(100, 30);
    terminal.wait_for("last second");
    terminal.press("?");
    terminal.wait_for("this list; any key ends it");
    terminal.press("q");
    terminal.assert_restored(130);
}

#[test]
fn a_watched_host_is_drawn_and_its_last_state_stays() {
    let terminal = Terminal::start();
    terminal.enter(
        "stty -g > before; $PLIMSOLL watch --interval 100ms --pid $$; echo \"ended $?\"; \
         stty -g > after; touch over",
    );
    for shown in ["TCP established", "packets  in", "bytes  in", "memory  ", "CPU 0", "bash"] {
        terminal.wait_for(shown);
    }
    terminal.press("Tab");
    terminal.wait_for("limits, the fullest first");
    terminal.resize(50, 10);
    terminal.wait_for("terminal too small for more (50 x 10)");
    // Two panels beside each other.
    terminal.resize(120, 30);
    terminal.wait_for("processes and servers, last interval");
    terminal.press("?");
    terminal.wait_for("this list; any key ends it");
    terminal.press("q");
    terminal.assert_restored(0);
    assert!(terminal.text().contains("Established"), "{}", terminal.text());
}

#[test]
fn a_signal_ends_a_watch_and_leaves_its_screen() {
    for signal in ["TERM", "INT", "HUP"] {
        let terminal = Terminal::start();
        terminal.enter(
            "stty -g > before; bash -c 'echo $$ > pid; exec $PLIMSOLL watch'; echo \"ended $?\"; \
             stty -g > after; touch over",
        );
        terminal.wait_for("TCP established");
        send_signal(signal, terminal.file("pid").trim());
        terminal.assert_restored(0);
    }
}

#[test]
fn a_watch_writes_lines_where_nothing_can_be_drawn() {
    let terminal = Terminal::start();
    let watch = "$PLIMSOLL watch --interval 100ms --duration 2s";
    terminal.enter(&format!("TERM=dumb {watch}; {watch} < /dev/null; echo \"ended $?\""));
    terminal.wait_for("ended 0");
    let text = terminal.text();
    assert!(text.matches(" established; ").count() >= 2, "{text}");
    assert!(!text.contains("Tab panel"), "{text}");
}

#[test]
fn a_hold_shows_its_connections_and_where_its_page_is() {
    let serve = Serve::plain();
    let terminal = Terminal::start();
    let url = serve.url();
    terminal
        .enter(&format!("$PLIMSOLL hold {url} -c 100 -r 20 --for 5m --live; echo \"ended $?\""));
    terminal.wait_for("page http://127.0.0.1:");
    terminal.wait_for("connections over time: held");
    terminal.wait_for("ramp to 100");
    terminal.press("p");
    terminal.wait_for("ramp paused");
    terminal.press("p");
    terminal.wait_for("ramp to 100");
    terminal.wait_for("held 100");
    terminal.press("q");
    terminal.wait_for("ended 130");
}

#[test]
fn a_signal_leaves_the_screen() {
    let serve = Serve::plain();
    for (signal, code) in [("TERM", 143), ("INT", 130), ("HUP", 143)] {
        let terminal = load(&serve);
        send_signal(signal, terminal.file("pid").trim());
        terminal.assert_restored(code);
    }
}

#[test]
fn a_second_interrupt_leaves_the_screen_at_once() {
    let serve = Serve::plain();
    let terminal = load(&serve);
    let pid = terminal.file("pid").trim().parse().expect("a process id");
    let agents = process::descendants(pid);
    let signal = |name| agents.iter().for_each(|agent| send_signal(name, &agent.pid.to_string()));
    // A run whose agents do not answer waits for them.
    signal("STOP");
    let presses = (1..=PRESSES).find(|_| {
        terminal.press("C-c");
        let ended = &mut || terminal.text().contains("ended").then_some(());
        wait::within(BETWEEN_PRESSES, ended).is_some()
    });
    assert!(presses > Some(1), "{presses:?}: {}", terminal.text());
    signal("KILL");
    terminal.assert_restored(130);
    // Nothing was reported.
    assert!(!terminal.text().contains("Operations"), "{}", terminal.text());
}

#[test]
fn a_killed_run_leaves_little_behind() {
    let serve = Serve::plain();
    let terminal = load(&serve);
    send_signal("KILL", terminal.file("pid").trim());
    terminal.wait_for("ended 137");
    let is_on = |file: &str, setting: &str| {
        terminal.file(file).split([' ', ';', '\n']).any(|word| word == setting)
    };
    // A shell that edits lines has settings of its own meanwhile, and hands those on that it found.
    terminal.enter("stty -a > killed; reset; stty -a > repaired; touch all");
    wait::until("the shell", || terminal.has_file("all").then_some(()));
    assert!(is_on("killed", "isig"), "{}", terminal.file("killed"));
    for setting in ["isig", "icanon", "echo"] {
        assert!(is_on("repaired", setting), "{}", terminal.file("repaired"));
    }
}
