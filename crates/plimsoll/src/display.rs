//! The screen of a command: a thread that draws the latest state, and passes on what keys ask for.
//!
//! The command never waits for the thread: a terminal that accepts no output blocks only the thread.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

use plimsoll_model::Nanos;
use plimsoll_report::tui::{Look, Painter, Scene, Wish};
use plimsoll_sys::signal::{Interrupts, end_now};
use plimsoll_sys::terminal::{Input, Screen, Waker, restore, size};
use plimsoll_sys::thread;

use crate::clock::now;
use crate::exit::INTERRUPTED;
use crate::screen::{Stream, is_ascii};

/// From one frame to the next, at least.
const FRAME: Duration = Duration::from_millis(250);
/// Time for which a thread that draws is waited for at the end.
const END_WAIT: Duration = Duration::from_millis(200);

/// A screen that is drawn; the terminal is as before once it is dropped.
pub(crate) struct Display<S> {
    latest: Arc<Mutex<S>>,
    pauses: Receiver<()>,
    waker: Waker,
    /// Closed once the thread has ended.
    ended: Receiver<()>,
}

impl<S: Scene> Display<S> {
    /// Takes the terminal. Time counts from `began` on CLOCK_MONOTONIC.
    pub(crate) fn start(state: S, began: Nanos, interrupts: &Interrupts) -> io::Result<Self> {
        restore_in_panics();
        let out = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        let (screen, waker) = Screen::enter()?;
        let latest = Arc::new(Mutex::new(state));
        let (send_pause, pauses) = channel();
        let (end, ended) = channel();
        let drawer = Drawer {
            latest: Arc::clone(&latest),
            look: Look::new(Stream::Err.colours(), is_ascii()),
            began,
            interrupts: interrupts.clone(),
            pauses: send_pause,
        };
        let work = move || {
            // A terminal that is gone is no reason to end the run.
            let _ = drawer.work(&screen, out);
            drop(end);
        };
        let started = thread::spawn("screen", None, work);
        if let Err(error) = started {
            restore();
            return Err(error);
        }
        Ok(Self { latest, pauses, waker, ended })
    }

    /// Shows `state` from the next frame on.
    pub(crate) fn show(&self, state: &S) {
        thread::lock(&self.latest).clone_from(state);
    }

    /// Reports whether the key to pause, or to go on, was pressed once more.
    pub(crate) fn poll_pause(&self) -> bool {
        self.pauses.try_recv().is_ok()
    }
}

impl<S> Drop for Display<S> {
    fn drop(&mut self) {
        self.waker.wake();
        // A thread that a terminal blocks is left behind.
        let _ = self.ended.recv_timeout(END_WAIT);
        restore();
    }
}

/// The state of the thread.
struct Drawer<S> {
    latest: Arc<Mutex<S>>,
    look: Look,
    began: Nanos,
    interrupts: Interrupts,
    pauses: Sender<()>,
}

impl<S: Scene> Drawer<S> {
    fn work(mut self, screen: &Screen, out: File) -> io::Result<()> {
        let size_of = || size(io::stderr());
        let mut painter = Painter::new(out, self.look.colours, Box::new(size_of))?;
        let mut with_keys = true;
        loop {
            let state = thread::lock(&self.latest).clone();
            let elapsed = now().since(self.began);
            painter.paint(|frame| state.draw(&self.look, elapsed, frame))?;
            let drawn = Instant::now();
            while let Some(left) = FRAME.checked_sub(drawn.elapsed()).filter(|left| !left.is_zero())
            {
                match screen.wait(left, with_keys)? {
                    Input::Woken => return Ok(()),
                    Input::Closed => with_keys = false,
                    Input::Nothing => {}
                    Input::Keys(keys) => self.press(&keys),
                }
            }
        }
    }

    fn press(&mut self, keys: &[u8]) {
        for wish in self.look.press(keys) {
            match wish {
                // Not over the run, which may hang.
                Wish::Stop => self.interrupts.interrupt(),
                Wish::StopNow => end_now(INTERRUPTED.into()),
                Wish::Pause => drop(self.pauses.send(())),
            }
        }
    }
}

/// Has a panic leave the screen before it says why.
fn restore_in_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let say = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            say(panic);
        }));
    });
}

#[cfg(test)]
mod tests {
    use std::mem::ManuallyDrop;
    use std::process::{Command, Stdio};
    use std::{env, fs};

    use plimsoll_report::tui::State;

    use super::*;

    /// Set in the process that is to panic.
    const PANICS: &str = "PLIMSOLL_TEST_PANICS";
    const MESSAGE: &str = "a panic behind a screen";

    #[test]
    fn a_panic_leaves_the_screen_before_it_says_why() {
        if env::var_os(PANICS).is_some() {
            panic_behind_a_screen();
        }
        let folder = tempfile::tempdir().expect("the temporary directory is writable");
        let command =
            "stty -g > before; \"$PROGRAM\" --exact --nocapture \"$TEST\"; stty -g > after";
        // What a terminal gets is written to the file.
        let status = Command::new("script")
            .args(["--quiet", "--command", command, "shown"])
            .current_dir(folder.path())
            .env("PROGRAM", env::current_exe().expect("it is running"))
            .env("TEST", "display::tests::a_panic_leaves_the_screen_before_it_says_why")
            .env(PANICS, "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .expect("script runs");
        assert!(status.success(), "{status}");
        let file = |name| fs::read(folder.path().join(name)).expect("it was written");
        let shown = String::from_utf8_lossy(&file("shown")).into_owned();
        let at = |text| shown.find(text).unwrap_or_else(|| panic!("no {text:?} in {shown:?}"));
        let order = [at("\x1b[?1049h"), at("\x1b[?1049l"), at(MESSAGE)];
        assert!(order.is_sorted(), "{shown:?}");
        assert_eq!(file("before"), file("after"));
    }

    fn panic_behind_a_screen() -> ! {
        let began = now();
        let interrupts = Interrupts::install().expect("handlers are installed");
        let display = Display::start(State::default(), began, &interrupts);
        // As in the released program, where a panic runs no destructors.
        let _display = ManuallyDrop::new(display.expect("a terminal"));
        panic!("{MESSAGE}");
    }
}
