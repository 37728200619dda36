//! Classification of failed system calls: the class decides whose fault the failure is.

use plimsoll_model::ErrorClass;
use plimsoll_sys::Errno;

/// The class of an error that is no refusal, where a timeout and a reset have these classes.
fn class(errno: Errno, timed_out: ErrorClass, reset: ErrorClass) -> ErrorClass {
    match errno {
        Errno::MFILE | Errno::NFILE => ErrorClass::LocalFiles,
        Errno::ADDRNOTAVAIL | Errno::ADDRINUSE => ErrorClass::LocalPorts,
        Errno::NOBUFS | Errno::NOMEM | Errno::NOSPC => ErrorClass::LocalMemory,
        Errno::TIMEDOUT => timed_out,
        Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED => reset,
        Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::HOSTDOWN | Errno::NETDOWN => {
            ErrorClass::ConnectUnreachable
        }
        _ => ErrorClass::LocalOther,
    }
}

/// Returns the class of an error before the connection was usable.
pub(crate) fn opening_error(errno: Errno) -> ErrorClass {
    match errno {
        Errno::CONNREFUSED => ErrorClass::ConnectRefused,
        _ => class(errno, ErrorClass::ConnectTimeout, ErrorClass::ConnectReset),
    }
}

/// Returns the class of an error on a usable connection.
pub(crate) fn exchange_error(errno: Errno) -> ErrorClass {
    // Keepalive or retransmission gave up, or the route went away, in mid-connection.
    class(errno, ErrorClass::ClosedByPeer, ErrorClass::ResetByPeer)
}
