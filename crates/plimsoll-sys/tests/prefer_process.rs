//! A process that prefers itself. It is a separate test process, because it changes all of its threads.

use std::process::Command;
use std::sync::mpsc;
use std::thread;

use plimsoll_sys::affinity;

fn nice() -> i32 {
    // SAFETY: takes and returns numbers.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

/// The nice value of a child that is started now.
fn nice_of_child() -> i32 {
    let output = Command::new("nice").output().expect("coreutils");
    let text = String::from_utf8(output.stdout).expect("a number");
    text.trim().parse().expect("a number")
}

#[test]
fn threads_that_run_already_and_children_are_preferred_too() {
    let before = nice();
    let (ask, asked) = mpsc::channel::<()>();
    let older = thread::spawn(move || {
        asked.recv().unwrap();
        nice()
    });

    let now = affinity::prefer_process();

    ask.send(()).unwrap();
    assert_eq!((older.join().unwrap(), nice_of_child()), (now, now));
    // Root may raise it; others keep what they had.
    let expected = if rustix::process::geteuid().is_root() { before.min(-10) } else { now };
    assert_eq!((now, affinity::prefer_process()), (expected, expected));
}
