//! The terminal that a screen is drawn on: keys as they are pressed, and the way back in every end.
//!
//! One screen at a time, on standard error; its keys come from standard input. Signals of the terminal stay on, so that
//! Ctrl-C works whatever hangs. What changes is little, so that a process that is killed leaves little behind.

use std::io;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::getpgrp;
use rustix::stdio;
use rustix::termios::{
    Action, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcflow, tcgetattr, tcgetpgrp,
    tcgetwinsize, tcsetattr,
};

/// The other screen, cleared, without a cursor: nothing of what was there before is touched.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J";
/// Clears for terminals that have one screen only.
const LEAVE: &[u8] = b"\x1b[0m\x1b[H\x1b[J\x1b[?25h\x1b[?1049l";
/// A character that no key sends.
const NO_KEY: u8 = 0;
/// Time for which a terminal that takes no output is waited for before it is left as it is.
const STUCK_AFTER: Duration = Duration::from_millis(200);
/// Bytes of keys read at once.
const KEYS_MAX: usize = 64;

/// Settings of the terminal before the screen; null while none is shown. The value is never freed, because a signal
/// handler may be reading it.
static BEFORE: AtomicPtr<Termios> = AtomicPtr::new(ptr::null_mut());

/// A screen that is shown, until [`restore`].
#[derive(Debug)]
pub struct Screen {
    /// Written to, it ends a wait for keys.
    woken: UnixStream,
}

/// Ends a wait for keys.
#[derive(Debug)]
pub struct Waker(UnixStream);

/// The end of a wait for keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Bytes of keys.
    Keys(Vec<u8>),
    /// The time has ended.
    Nothing,
    /// Somebody has used the [`Waker`].
    Woken,
    /// No key will come any more.
    Closed,
}

/// Reports whether a screen can be shown and keys read: both streams are this process's terminal, and it is not in the
/// background, where changing the terminal would stop it.
pub fn is_ours() -> bool {
    let is_ours = |fd: BorrowedFd<'_>| tcgetpgrp(fd).is_ok_and(|group| group == getpgrp());
    is_ours(stdio::stderr()) && is_ours(stdio::stdin())
}

/// Columns and rows of the terminal behind `stream`; `None` if it does not know them.
pub fn size(stream: impl AsFd) -> Option<(u16, u16)> {
    let size = tcgetwinsize(stream).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

impl Screen {
    /// Shows an empty screen.
    pub fn enter() -> io::Result<(Self, Waker)> {
        let (waker, woken) = UnixStream::pair()?;
        let before = tcgetattr(stdio::stderr())?;
        let mut keys = before.clone();
        keys.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        keys.special_codes[SpecialCodeIndex::VMIN] = 1;
        keys.special_codes[SpecialCodeIndex::VTIME] = 0;
        // A load that is suspended has measured nothing; SIGQUIT would leave the terminal as it is.
        keys.special_codes[SpecialCodeIndex::VSUSP] = NO_KEY;
        keys.special_codes[SpecialCodeIndex::VQUIT] = NO_KEY;
        BEFORE.store(Box::into_raw(Box::new(before)), Ordering::Release);
        let shown = tcsetattr(stdio::stderr(), OptionalActions::Now, &keys)
            .map_err(io::Error::from)
            .and_then(|()| io::stderr().write_all(ENTER));
        if let Err(error) = shown {
            restore();
            return Err(error);
        }
        Ok((Self { woken }, Waker(waker)))
    }

    /// Waits for keys; `with_keys` is false once there are none to come.
    pub fn wait(&self, timeout: Duration, with_keys: bool) -> io::Result<Input> {
        let input = stdio::stdin();
        let mut waits =
            [PollFd::new(&self.woken, PollFlags::IN), PollFd::new(&input, PollFlags::IN)];
        let waited_for = if with_keys { &mut waits[..] } else { &mut waits[..1] };
        let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
        match poll(waited_for, Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => return Ok(Input::Nothing),
            polled => polled?,
        };
        if !waits[0].revents().is_empty() {
            return Ok(Input::Woken);
        }
        if waits[1].revents().is_empty() {
            return Ok(Input::Nothing);
        }
        let mut keys = [0; KEYS_MAX];
        Ok(match rustix::io::read(input, &mut keys) {
            Ok(1..) if keys[0] == NO_KEY => Input::Nothing,
            Ok(read @ 1..) => Input::Keys(keys[..read].to_vec()),
            Ok(0) | Err(_) => Input::Closed,
        })
    }
}

impl Waker {
    /// Ends the wait for keys, now and from now on.
    pub fn wake(&self) {
        let _ = (&self.0).write(&[1]);
    }
}

/// Makes the terminal what it was, if a screen is shown. May be called from a signal handler or from a panic, and more
/// than once.
pub fn restore() {
    let before = BEFORE.swap(ptr::null_mut(), Ordering::AcqRel);
    if before.is_null() {
        return;
    }
    // SAFETY: made from a box above, and never freed.
    let before = unsafe { &*before };
    let terminal = stdio::stderr();
    // Output that was stopped with Ctrl-S continues.
    let _ = tcflow(terminal, Action::OOn);
    let mut writable = [PollFd::new(&terminal, PollFlags::OUT)];
    let timeout = Timespec::try_from(STUCK_AFTER).ok();
    if poll(&mut writable, timeout.as_ref()).is_ok_and(|ready| ready > 0) {
        let _ = rustix::io::write(terminal, LEAVE);
    }
    // In the background this would stop the process, and the foreground process has its own settings.
    if tcgetpgrp(terminal).is_ok_and(|group| group == getpgrp()) {
        let _ = tcsetattr(terminal, OptionalActions::Now, before);
    }
}
