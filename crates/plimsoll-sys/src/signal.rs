//! SIGINT, SIGTERM and SIGHUP as a counted flag; SIGPIPE as an error value.
//!
//! The first stop signal is a request: stop, and report what there is. The second ends the process at
//! once. Nothing else is decided here.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use signal_hook::low_level;

use crate::{clock, terminal};

/// `timeout`, shells and service managers signal a process and then its group, so that one request
/// arrives twice. Signals this close to the first are the same request.
const SAME_WISH_NS: u64 = 200_000_000;

/// The signals that asked this process to stop. Clones share one state.
#[derive(Clone, Debug)]
pub struct Interrupts(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// Time of the first signal; 0 = none yet.
    first_ns: AtomicU64,
    /// The exit code that the first signal asks for; 0 = none yet.
    exit_code: AtomicI32,
}

impl Interrupts {
    /// Takes over SIGINT, SIGTERM and, unless it is ignored as by `nohup`, SIGHUP, and turns SIGPIPE into an error of
    /// the write. Call it once, in the process that the user started; its coordinator stops the agents.
    pub fn install() -> io::Result<Self> {
        let state = Arc::new(State::default());
        // The loss of the terminal ends the process as SIGTERM does.
        let hung_up = (!is_ignored(libc::SIGHUP)).then_some((libc::SIGHUP, 143));
        for (signal, exit_code) in
            [(libc::SIGINT, 130), (libc::SIGTERM, 143)].into_iter().chain(hung_up)
        {
            let state = state.clone();
            let action = move || {
                if state.handle_signal(exit_code, clock::monotonic_ns()) {
                    end_now(exit_code);
                }
            };
            // SAFETY: the action runs inside a signal handler: it reads the clock, restores the terminal by
            // system calls alone, which are async-signal-safe, touches atomics, and may call _exit.
            unsafe { low_level::register(signal, action) }?;
        }
        ignore_broken_pipes();
        Ok(Self(state))
    }

    /// Reports whether a stop signal came.
    pub fn is_raised(&self) -> bool {
        self.exit_code().is_some()
    }

    /// Acts like a SIGINT: stops and reports, and ends at once if that was requested before.
    pub fn interrupt(&self) {
        if self.0.handle_signal(130, clock::monotonic_ns()) {
            end_now(130);
        }
    }

    /// Returns the exit code that the signal asks for: 130 after SIGINT, 143 after SIGTERM or SIGHUP.
    pub fn exit_code(&self) -> Option<i32> {
        Some(self.0.exit_code.load(Ordering::Acquire)).filter(|code| *code != 0)
    }
}

impl State {
    /// Takes note of a signal; `true` asks to end the process at once.
    fn handle_signal(&self, exit_code: i32, now_ns: u64) -> bool {
        let now_ns = now_ns.max(1);
        match self.first_ns.compare_exchange(0, now_ns, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                self.exit_code.store(exit_code, Ordering::Release);
                false
            }
            Err(first_ns) => now_ns.saturating_sub(first_ns) > SAME_WISH_NS,
        }
    }
}

/// Ends the process without another word; its terminal is as before.
pub fn end_now(exit_code: i32) -> ! {
    terminal::restore();
    low_level::exit(exit_code)
}

fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: all zeroes is a value of this plain C struct.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null pointer as the new action changes nothing; `now` is written to.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut now) };
    asked == 0 && now.sa_sigaction == libc::SIG_IGN
}

/// Makes writing to a closed pipe an error (EPIPE) instead of the process's death.
pub fn ignore_broken_pipes() {
    // SAFETY: SIG_IGN is an action that signal() accepts for SIGPIPE; no handler is involved.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_wish_ends_the_process() {
        let interrupts = Interrupts(Arc::new(State::default()));
        assert!(!interrupts.is_raised());
        let start_ns = 7_000_000_000;
        assert!(!interrupts.0.handle_signal(143, start_ns));
        assert_eq!(interrupts.exit_code(), Some(143));
        // The group's copy of the same request.
        assert!(!interrupts.0.handle_signal(143, start_ns + 1_000_000));
        assert!(interrupts.0.handle_signal(130, start_ns + 300_000_000));
        // What the first signal asked for stays.
        assert_eq!(interrupts.exit_code(), Some(143));
    }
}
