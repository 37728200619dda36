//! Waiting for something to become true, with a timeout.

use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// Ends every wait of a test. Far beyond what a busy machine needs, so reaching it is a failure.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Shortest and longest pause between two looks; no test depends on them.
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(100)];
/// Pause after a look, as a multiple of its time: a browser that is asked all the time uses a CPU.
const PAUSE: u32 = 2;

/// Looks again and again until `look` finds something; panics with `what` when it never does.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, &mut look).unwrap_or_else(|| panic!("waited in vain for {what}"))
}

/// Polls until `look` finds something or `patience` is over.
pub fn within<T>(patience: Duration, look: &mut dyn FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + patience;
    let [shortest, longest] = PAUSES;
    loop {
        let began = Instant::now();
        if let Some(found) = look() {
            return Some(found);
        }
        if Instant::now() > deadline {
            return None;
        }
        thread::sleep((PAUSE * began.elapsed()).clamp(shortest, longest));
    }
}

/// Reports whether something accepts connections at `address`.
pub fn accepts(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
}
